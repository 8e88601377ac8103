"""Output and Lipschitz bounds of bounded networks, against networks drawn at their limits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from labeldp.errors import InputError
from labeldp_paper.theory.neural import NeuralClass


def network(random, radius, layers, size):
    """Weights of every layer on the sphere of the Frobenius norm; the last has one output."""
    shapes = [(size, size + 1)] * (layers - 1) + [(1, size + 1)]
    weights = [random.standard_normal(shape) for shape in shapes]
    return [w * radius / np.linalg.norm(w) for w in weights]


def output(weights, x):
    for w in weights:
        x = w @ np.append(np.maximum(x, 0.0), 1.0)
    return float(x[0])


@settings(max_examples=60)
@given(st.floats(0.2, 3), st.integers(1, 5), st.integers(1, 6), st.integers(0, 10**6))
def test_outputs_and_slopes_stay_within_the_bounds(radius, layers, size, seed):
    random = np.random.default_rng(seed)
    bounds = NeuralClass(radius, layers)
    weights, x = network(random, radius, layers, size), random.standard_normal(size)
    x *= radius / np.linalg.norm(x)
    assert abs(output(weights, x)) <= bounds.output_bound * (1 + 1e-12)
    other = [w + 1e-3 * random.standard_normal(w.shape) for w in weights]
    other = [w * min(1.0, radius / np.linalg.norm(w)) for w in other]
    change = math.sqrt(sum(np.linalg.norm(a - b) ** 2 for a, b in zip(weights, other, strict=True)))
    assert abs(output(weights, x) - output(other, x)) <= bounds.lipschitz * change * (1 + 1e-9)
    norm = math.sqrt(sum(np.linalg.norm(w) ** 2 for w in weights))
    assert norm == pytest.approx(bounds.weight_norm)


@pytest.mark.parametrize("radius", [0.5, 1.0, 2.0])
def test_a_chain_of_single_units_attains_the_output_bound(radius):
    """Weights aligned with [f|1]: ‖f_l‖² = K²(‖f_{l−1}‖²+1) with equality."""
    f = np.array([radius])
    for _ in range(4):
        full = np.append(f, 1.0)
        f = np.array([radius * np.linalg.norm(full)])
    assert f[0] == pytest.approx(NeuralClass(radius, 4).output_bound)


def test_a_network_of_small_layers_breaks_the_sum_of_norms():
    """K ≤ 1: the change can exceed Σ‖W−W'‖, yet stays below the class's constant."""
    x, bounds = np.array([0.9]), NeuralClass(0.9, 1)
    direction = np.append(x, 1.0) / np.linalg.norm(np.append(x, 1.0))
    low, high = [0.8 * direction[None, :]], [0.9 * direction[None, :]]
    slope = (output(high, x) - output(low, x)) / 0.1
    assert 1.0 < slope <= bounds.lipschitz * (1 + 1e-12)


def test_formulas():
    two = NeuralClass(2.0, 3)
    assert two.output_bound == pytest.approx(2 * math.sqrt((2**8 - 1) / 3))
    assert two.lipschitz == pytest.approx(math.sqrt(3 * (2**8 - 1) / 3))
    assert NeuralClass(0.1, 9).lipschitz == 9.0
    assert NeuralClass(1.0, 3).output_bound == pytest.approx(2.0)
    assert NeuralClass(1.0, 3, feature_bound=2.0) == NeuralClass(1.0, 3, 2.0)
    assert NeuralClass(1.0, 3, 2.0).output_bound == two.output_bound
    assert two.loss_bound((0.0, 2.0)) == pytest.approx((1 + two.output_bound) ** 2)
    assert NeuralClass(1e10, 1000).output_bound == math.inf
    with pytest.raises(InputError, match="layers"):
        NeuralClass(1.0, 0)
    with pytest.raises(InputError, match="radius"):
        NeuralClass(0.0, 1)
