"""Sub-models of a rich basis, weighed by what a release says of each (theory §10, §12).

A design with curves holds smaller ones: linear ⊂ splines ⊂ all. Which of them the labels need is
not known when a release is planned, and costs nothing to find out from it. Each is a family of
priors of its own,

    b ~ N(0, v0·q0q0ᵀ + τP),   P = BWBᵀ or (BWBᵀ)^½,

W diagonal: 1 for linear columns; for those that a sub-model adds, some weight, since a curve may be
a small part of what is explained or a large one; 0 for those that it lacks. Every sub-model has the
same belief, and predictions are the mean over all: a basis that says nothing is hardly used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np

from labeldp.learners.shrinkage import Array, Prior, without_constant

MODELS = ("linear", "splines", "all")
_WEIGHTS = (1.0, 0.1, 0.01)


def sub_models(
    root: Array, mean: Array | None, constant: int | None, degrees: Sequence[int]
) -> tuple[Prior, ...]:
    """The priors of every sub-model; `degrees` says of each column in which it comes first."""
    columns = without_constant(root, mean, constant)
    of = np.array([d for place, d in enumerate(degrees) if place != constant])
    priors: list[Prior] = []
    for degree in sorted(set(of.tolist()) | {0}):
        weights = [w for w in _weights(of, degree) if w.any()]
        members = [prior for weight in weights for prior in _pair(columns, weight, MODELS[degree])]
        priors += [prior.believed(1 / len(members)) for prior in members]
    return tuple(prior.with_trace(columns.shape[0] - (mean is not None)) for prior in priors)


def _weights(of: Array, degree: int) -> Iterator[Array]:
    """Ways to weigh columns up to a degree."""
    there = sorted({int(d) for d in of if 0 < d <= degree})
    for chosen in product(_WEIGHTS, repeat=len(there)):
        weight = np.where(of == 0, 1.0, 0.0)
        for each, by in zip(there, chosen, strict=True):
            weight[of == each] = by
        yield weight


def _pair(columns: Array, weight: Array, model: str) -> Iterator[Prior]:
    vectors, values, _ = np.linalg.svd(columns * np.sqrt(weight), full_matrices=False)
    yield Prior("columns", (vectors * values**2) @ vectors.T, model)
    yield Prior("square root", (vectors * values) @ vectors.T, model)
