"""Families of neighbours and sketches, piece by piece: roots, cells, charts, facts, bags."""

from __future__ import annotations

import math
from functools import partial

import mpmath as mp
import numpy as np
import pytest

from labeldp.accounting import contour, neighbors
from labeldp.accounting.neighbors import NeighborFamily, residual_cosine
from labeldp.accounting.privacy_profile import (
    Bounds,
)
from labeldp.accounting.sketch import (
    DatasetBounds,
    SketchProfile,
    spans_labels,
)
from labeldp.errors import InputError

# --- neighbours ----------------------------------------------------------------------------------


@pytest.mark.parametrize("tau", [1e-9, 0.3, 2.5])
@pytest.mark.parametrize("cosine", [-1.0, -0.3, -1e-7, 0.0, 0.4, 1.0])
@pytest.mark.parametrize("leverage", [0.0, 1e-9, 0.2, 1.0])
def test_u_and_v_are_the_roots_of_their_equations(tau, cosine, leverage):
    """u − v = 2τc + τ² and uv = τ²h, in 40 digits."""
    u, v = (float(x) for x in neighbors.roots(tau, cosine, leverage))
    with mp.workdps(40):
        t, c, h = mp.mpf(tau), mp.mpf(cosine), mp.mpf(leverage)
        p, q = 2 * t * c + t * t, t * t * h
        root = mp.sqrt(p * p + 4 * q)
        big = (abs(p) + root) / 2
        small = q / big if big else mp.mpf(0)
        want = (big, small) if p >= 0 else (small, big)
    assert u == pytest.approx(float(want[0]), rel=1e-13, abs=0.0)
    assert v == pytest.approx(float(want[1]), rel=1e-13, abs=0.0)


def brute_cell(tau, leverage, c1, c2):
    """The largest u and v over all c of the cell, all h and all changes up to τ."""
    c = np.linspace(c1, c2, 61)[:, None, None]
    h = np.minimum(leverage, 1 - c * c) * np.linspace(0.0, 1.0, 5)[None, :, None]
    t = tau * np.linspace(0.01, 1.0, 200)[None, None, :]
    u, v = neighbors.roots(t, c, h)
    return float(u.max()), float(v.max())


@pytest.mark.parametrize("tau", [0.3, 0.8, 1.6])
@pytest.mark.parametrize("leverage", [0.02, 0.5, 1.0])
@pytest.mark.parametrize(
    ("c1", "c2"),
    [
        (-0.9, 0.8),
        (0.6, 0.9),
        (-0.9, -0.7),
        (-0.3, -0.3),
        (-0.2, 0.1),
        (0.0, 0.0),
        (0.1, 0.5),
        (0.9, 1.0),
    ],
)
def test_a_cell_of_public_features_is_above_its_neighbours_and_close(tau, leverage, c1, c2):
    u, v = neighbors._feature_cells(tau, leverage, np.array([c1]), np.array([c2]))
    most_u, most_v = brute_cell(tau, leverage, c1, c2)
    assert u[0] >= most_u * (1 - 1e-12)
    assert v[0] >= most_v * (1 - 1e-12)
    nearest = 0.0 if c1 * c2 <= 0 else min(abs(c1), abs(c2))
    h = min(leverage, 1 - nearest**2)
    top = float(neighbors.roots(tau, c2, h)[0])
    assert u[0] == pytest.approx(min(top, tau * (2 + tau)), rel=1e-12)
    if c1 == c2:
        assert v[0] == pytest.approx(most_v, rel=1e-3)
    if tau < 1.0:
        assert v[0] <= tau * (2 - tau)


def test_a_value_is_that_of_the_worse_direction():
    each = NeighborFamily(30, 0.2, inflation=0.25)
    u, v = np.array([0.05, 0.3, 0.2]), np.array([0.3, 0.05, 0.81])

    def value(u, v):
        chart = neighbors.Chart(0.0, 1.0, lambda *_: (u, v))
        boxes = np.zeros((1, len(u)))
        return neighbors._delta_of_boxes(
            [each], [chart], 0.4, 0.1, ((0.0, 1.0),), boxes, boxes, 0.0
        )

    found = value(u, v)
    for place in (0, 1):
        wide_u, wide_v = 1.25 * u[place], 1.25 * v[place]
        there = contour.joint_loss([(30, wide_v / (1 - wide_v), wide_u / (1 + wide_u))], 0.1)
        back = contour.joint_loss([(30, wide_u, wide_v)], 0.1)
        both = [contour.loss_delta(loss, 0.4)[:, 0] for loss in (there, back)]
        np.testing.assert_allclose(found[:, place], np.max(both, axis=0), rtol=1e-12)
    assert found[:, 2].tolist() == [1.0, 1.0, 1.0]
    huge = value(np.array([1e15]), np.array([0.1]))
    assert huge[:, 0].tolist() == [1.0, 1.0, 1.0]
    for bad in ((-0.1, 0.0), (0.1, -0.1)):
        with pytest.raises(InputError):
            each.delta(*bad)
    for facts in [(0, 0.1), (1, 0.0), (1, 0.1, -0.1), (1, 0.1, 1, -0.1), (1, 0.1, 1, 1, -0.1)]:
        with pytest.raises(InputError):
            NeighborFamily(*facts)


def test_the_smaller_of_two_certified_answers_counts(monkeypatch):
    each = NeighborFamily(40, 0.1, 0.05, 0.1)
    charts = each.charts()
    assert len(charts) == 2
    for certified in (True, False):
        side = partial(each.delta, certified=certified)
        whole, apart = side(1.0).upper, []
        for chart in charts:
            with monkeypatch.context() as patch:
                patch.setattr(NeighborFamily, "charts", lambda _, chart=chart: [chart])
                neighbors.supremum.cache_clear()
                apart.append(side(1.0).upper)
        neighbors.supremum.cache_clear()
        assert apart[0] != apart[1]
        assert whole == min(apart)


def test_the_bound_of_a_family_is_above_every_cell_that_was_ever_looked_at():
    def value(left, right, enough):  # noqa: ARG001
        total = 0.8 * right[0] * (1.0 - left[0])
        return np.array([0.5 * total, total, total + np.where(right[0] < 0.3, 0.5, 0.05)])

    def plain(left, right, enough):  # noqa: ARG001
        return np.array([0.8 * right[0] * (1.0 - left[0])] * 3)

    unit = [neighbors.Chart(0.0, 1.0, None)]
    found = neighbors._certify(unit, value, Bounds(0.0, 0.0, 0.0))
    assert found.upper >= 0.5
    assert found.estimate == pytest.approx(0.2, rel=1e-3)
    assert found.lower == pytest.approx(0.1, rel=1e-3)
    near = neighbors._certify(unit, plain, Bounds(0.19, 0.19, 0.19))
    assert 0.2 <= near.upper <= 0.21
    wide = neighbors._certify(unit, value, Bounds(0.1, 0.9, 0.95))
    assert wide == Bounds(0.1, 0.9, 0.95)


@pytest.mark.parametrize(
    ("rows", "radius", "top"), [(100, 2.0, 0.3), (100, 2.0, 1e-3), (5, 1.0, 1.0)]
)
@pytest.mark.parametrize("floor", [0.5, 20.0, 150.0, 390.0, 2_000.0])
def test_the_largest_cosine_is_a_hair_above_the_truth(rows, radius, top, floor):
    h = np.concatenate([np.linspace(0.0, top, 400_001)])
    rho = radius * (1 - h + np.sqrt((rows - 1) * h * (1 - h)))
    brute = float(np.minimum(rho / math.sqrt(floor), np.sqrt(1 - h)).max())
    found = residual_cosine(rows, radius, top, floor)
    assert found >= brute
    assert found <= min(1.0, brute * (1 + 1e-6))


def test_the_cosine_has_a_margin_of_1e_12_and_an_end():
    """One row: φ = 0, and ρ = B at h = 0; the other way it is cos θ = 1."""
    assert residual_cosine(1, 1.0, 0.0, 100.0) == pytest.approx(0.1, rel=1.1e-12)
    assert 0.5e-12 < residual_cosine(1, 1.0, 0.0, 100.0) / 0.1 - 1 < 1.5e-12
    assert residual_cosine(1, 10.0, 0.0, 1.0) == 1.0
    for bad in [(0, 1.0, 0.1, 1.0), (1, 0.0, 0.1, 1.0), (1, 1.0, -0.1, 1.0), (1, 1.0, 0.1, 0.0)]:
        with pytest.raises(InputError):
            residual_cosine(*bad)
    assert residual_cosine(50, 1.0, 2.0, 9.0) == residual_cosine(50, 1.0, 1.0, 9.0)


# --- facts and sketches --------------------------------------------------------------------------

PUBLIC = DatasetBounds(1000, (-1.0, 3.0), 10, 0.05, inflation=0.001)


def test_facts_are_what_they_say():
    assert PUBLIC.width == 4.0
    assert PUBLIC.radius == 2.0
    assert DatasetBounds(10, (-1.0, 3.0), centred=False).radius == 3.0
    assert DatasetBounds(10, (-5.0, 3.0), centred=False).radius == 5.0
    assert DatasetBounds(10, (0.0, 1.0), max_leverage=1.0).max_leverage == 1.0
    assert DatasetBounds(10, (0.0, 1.0), 10, 1.0).features == 10
    assert DatasetBounds(1000, (0.0, 1.0), 10, 0.01).max_leverage == 0.01
    assert DatasetBounds(1000, (0.0, 1.0), 10, 0.01 * (1 - 0.9e-9)).features == 10
    assert DatasetBounds(10, (0.0, 1.0)).inflation == 0.0
    assert DatasetBounds(10, (0.0, 1.0), max_leverage=0.05).features is None
    for rows, labels, features, leverage, inflation in [
        (0, (0.0, 1.0), None, None, 0.0),
        (10, (1.0, 0.0), None, None, 0.0),
        (10, (0.0, 1.0), None, 1.01, 0.0),
        (10, (0.0, 1.0), None, -0.01, 0.0),
        (10, (0.0, 1.0), None, None, -0.1),
        (1000, (0.0, 1.0), 10, 0.01 * (1 - 1.5e-9), 0.0),
        (1000, (0.0, 1.0), 10, 0.0099, 0.0),
    ]:
        with pytest.raises(InputError):
            DatasetBounds(rows, labels, features, leverage, inflation=inflation)


def family(bags, floor, labels=1):
    return SketchProfile(PUBLIC, bags, floor, labels=labels).family


@pytest.mark.parametrize("labels", [1, 2, 9])
def test_a_family_grows_with_the_labels_that_change(labels):
    root = math.sqrt(labels)
    found = family(7, 400.0, labels)
    assert found.bags == 7
    assert found.tau == pytest.approx(root * 4.0 / 20.0, rel=2e-15)
    assert found.tau >= root * 4.0 / 20.0
    assert found.leverage == pytest.approx(labels * 0.05)
    cosine = root * residual_cosine(1000, 2.0, 0.05, 400.0)
    assert found.cosine == pytest.approx(min(1.0, cosine))
    assert found.inflation == 0.001


def test_a_change_over_the_floor_is_rounded_up():
    for floor in (3.0, 7.0, 11.0, 400.0):
        with mp.workdps(40):
            over = mp.mpf(family(1, floor).tau) / (4 / mp.sqrt(mp.mpf(floor))) - 1
            assert 0.4e-15 < over < 1.6e-15


def test_where_leverages_say_nothing_the_worst_is_assumed():
    plain = SketchProfile(DatasetBounds(1000, (-1.0, 3.0), inflation=0.001), 7, 400.0).family
    assert (plain.leverage, plain.cosine, plain.inflation) == (1.0, 1.0, 0.001)
    many = family(7, 400.0, 20)
    assert (many.leverage, many.cosine) == (1.0, 1.0)
    assert family(7, 400.0, 19).leverage == pytest.approx(0.95)
    for bags, floor, labels in [(0, 1.0, 1), (1, 0.0, 1), (1, 1.0, 0)]:
        with pytest.raises(InputError):
            family(bags, floor, labels)


# --- bags ----------------------------------------------------------------------------------------


def partitions(total, largest):
    if total == 0:
        yield ()
    for first in range(1, min(total, largest) + 1):
        for rest in partitions(total - first, first):
            yield (first, *rest)


@pytest.mark.parametrize(("rows", "labels"), [(30, 1), (30, 2), (30, 5), (2, 5), (3, 4)])
def test_labels_in_several_bags_cost_the_dearest_way_to_share_them(rows, labels):
    bag = SketchProfile(DatasetBounds(rows, (0.0, 1.0)), 1, 60.0, 0.05, 1e-5, disjoint=True)
    law, epsilon = bag.group(labels), 0.02
    bare = SketchProfile(DatasetBounds(rows, (0.0, 1.0)), 1, 60.0, 0.05)

    def cost(way, certified):
        return math.fsum(
            bare.group(size).delta(epsilon * size / labels, certified=certified).upper
            for size in way
        )

    for certified in (True, False):
        dearest = max(cost(way, certified) for way in partitions(labels, min(rows, labels)))
        found = law.delta(epsilon, certified=certified)
        assert found.upper == pytest.approx(min(1.0, dearest + 1e-5), rel=1e-12)
        assert found.upper >= min(1.0, dearest + 1e-5) * (1 - 1e-15)
        assert found.lower <= found.estimate <= found.upper
    whole = law.delta(epsilon).lower
    if labels > rows:
        assert whole == pytest.approx(1e-5)
    else:
        assert whole == pytest.approx(bare.group(labels).delta(epsilon).lower + 1e-5)


def test_bags_with_no_more_rows_than_features_show_their_labels():
    assert spans_labels(5, 4) == ""
    assert spans_labels(4, 4) == (
        "bags of 4 rows with 4 independent features determine their labels: "
        "no ε, no δ below 1; bags need more than 4 rows, or added noise as their floor"
    )
    assert spans_labels(3, 4) != ""
