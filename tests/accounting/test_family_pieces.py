"""Families of neighbours and sketches, piece by piece: roots, cells, charts, facts, bags."""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest

from labeldp.accounting import contour, neighbors
from labeldp.accounting.neighbors import NeighborFamily, residual_cosine
from labeldp.accounting.privacy_profile import (
    MOST_EPSILON,
    Bounds,
    LossFactors,
    SearchRange,
)
from labeldp.accounting.sketch import (
    BagOfSizeProfile,
    DatasetBounds,
    DisjointBagsProfile,
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


def test_the_two_directions_are_reciprocal():
    u, v = np.array([0.3]), np.array([0.2])
    alpha, beta = neighbors.scales(u, v)
    assert alpha[0] == pytest.approx(1 / 0.8 - 1)
    assert beta[0] == pytest.approx(1 - 1 / 1.3)


def test_a_cell_of_unknown_features_is_its_two_ends():
    u, v = neighbors._worst_cells(0.4, np.array([0.0, 0.1]), np.array([0.4, 0.25]))
    assert 1 + u == pytest.approx([1.4**2, 1.3**2])
    assert 1 - v == pytest.approx([0.6**2, 0.75**2])


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
    found = each._value(0.4, 0.1)((u, v), 0.0)
    for place in (0, 1):
        wide_u, wide_v = 1.25 * u[place], 1.25 * v[place]
        there = contour.compose([(30, wide_v / (1 - wide_v), wide_u / (1 + wide_u))], 0.1)
        back = contour.compose([(30, wide_u, wide_v)], 0.1)
        both = [contour.delta(loss, 0.4)[:, 0] for loss in (there, back)]
        np.testing.assert_allclose(found[:, place], np.max(both, axis=0), rtol=1e-12)
    assert found[:, 2].tolist() == [1.0, 1.0, 1.0]
    huge = each._value(0.4, 0.1)((np.array([1e15]), np.array([0.1])), 0.0)
    assert huge[:, 0].tolist() == [1.0, 1.0, 1.0]
    for bad in ((-0.1, 0.0), (0.1, -0.1)):
        with pytest.raises(InputError):
            each._value(*bad)
    for facts in [(0, 0.1), (1, 0.0), (1, 0.1, -0.1), (1, 0.1, 1, -0.1), (1, 0.1, 1, 1, -0.1)]:
        with pytest.raises(InputError):
            NeighborFamily(*facts)


def test_the_smaller_of_two_certified_answers_counts():
    each = NeighborFamily(40, 0.1, 0.05, 0.1)
    value = each._value(1.0, 0.0)
    apart = [neighbors._certify(chart, value, ends).upper for ends, chart in each._ends(value)]
    assert len(apart) == 2
    assert each.delta(1.0).upper == pytest.approx(min(apart), rel=1e-12)
    assert each.quick_delta(1.0).upper == min(ends.upper for ends, _ in each._ends(value))


def test_the_best_way_to_bound_a_family_counts(monkeypatch):
    """By its certified upper end, though another way looked better at its ends."""
    ends = [(Bounds(0.1, 0.25, 0.3), "first"), (Bounds(0.15, 0.18, 0.2), "second")]
    sure = {"first": Bounds(0.25, 0.3, 0.35), "second": Bounds(0.2, 0.4, 0.5)}

    class Fake:
        def _value(self, epsilon, gaussian):  # noqa: ARG002
            return None

        def _ends(self, value):  # noqa: ARG002
            return ends

    monkeypatch.setattr(neighbors, "_certify", lambda chart, value, at_ends: sure[chart])  # noqa: ARG005
    assert neighbors._supremum(Fake(), 1.0, 0.0) == sure["first"]
    assert NeighborFamily.quick_delta(Fake(), 1.0) == ends[1][0]
    ends.reverse()
    assert neighbors._supremum(Fake(), 1.0, 0.0) == sure["first"]
    assert NeighborFamily.quick_delta(Fake(), 1.0) == Bounds(0.15, 0.18, 0.2)


def test_the_bound_of_a_family_is_above_every_cell_that_was_ever_looked_at():
    def value(pairs, enough):  # noqa: ARG001
        total = 0.8 * pairs[0] * pairs[1]
        return np.array([0.5 * total, total, total + np.where(pairs[0] < 0.3, 0.5, 0.05)])

    def plain(pairs, enough):  # noqa: ARG001
        return np.array([0.8 * pairs[0] * pairs[1]] * 3)

    found = neighbors._certify(
        neighbors.Parametrization(0.0, 1.0, linear), value, Bounds(0.0, 0.0, 0.0)
    )
    assert found.upper >= 0.5
    assert found.estimate == pytest.approx(0.2, rel=1e-3)
    assert found.lower == pytest.approx(0.1, rel=1e-3)
    near = neighbors._certify(
        neighbors.Parametrization(0.0, 1.0, linear), plain, Bounds(0.19, 0.19, 0.19)
    )
    assert 0.2 <= near.upper <= 0.21
    wide = neighbors._certify(
        neighbors.Parametrization(0.0, 1.0, linear), value, Bounds(0.1, 0.9, 0.95)
    )
    assert wide == Bounds(0.1, 0.9, 0.95)


def linear(x1, x2):
    return x2, 1.0 - x1


def test_branch_and_bound_stops_where_bounds_agree_to_1e_9():
    """δ = u + 0·v: every cell's bound is its right end, the best an end of the chart."""

    def value(pairs, enough):  # noqa: ARG001
        return np.array([pairs[0]] * 3)

    chart = neighbors.Parametrization(0.0, 1.0, linear)
    found = neighbors._certify(chart, value, Bounds(1.0, 1.0, 1.0))
    assert found == Bounds(1.0, 1.0, 1.0)
    early = neighbors._certify(chart, value, Bounds(0.0, 0.5, 0.6))
    assert early.upper == 1.0
    assert early.estimate == pytest.approx(1.0, rel=1e-8)


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


def test_a_leverage_that_cannot_be_is_refused_for_what_it_is():
    with pytest.raises(InputError, match="`max_leverage` must be at least 0"):
        DatasetBounds(10, (0.0, 1.0), max_leverage=-0.01)
    with pytest.raises(InputError, match="`max_leverage` must be at most 1, as every leverage is"):
        DatasetBounds(10, (0.0, 1.0), max_leverage=1.01)
    with pytest.raises(InputError, match="is below features/rows, the average leverage"):
        DatasetBounds(1000, (0.0, 1.0), 10, 0.0099)


@pytest.mark.parametrize("labels", [1, 2, 9])
def test_a_family_grows_with_the_labels_that_change(labels):
    root = math.sqrt(labels)
    found = PUBLIC.family(7, 400.0, labels)
    assert found.bags == 7
    assert found.tau == pytest.approx(root * 4.0 / 20.0, rel=2e-15)
    assert found.tau >= root * 4.0 / 20.0
    assert found.leverage == pytest.approx(labels * 0.05)
    cosine = root * residual_cosine(1000, 2.0, 0.05, 400.0)
    assert found.cosine == pytest.approx(min(1.0, cosine))
    assert found.inflation == 0.001
    assert PUBLIC.family(7, 400.0) == PUBLIC.family(7, 400.0, 1)


def test_a_change_over_the_floor_is_rounded_up():
    for floor in (3.0, 7.0, 11.0, 400.0):
        with mp.workdps(40):
            over = mp.mpf(PUBLIC.family(1, floor).tau) / (4 / mp.sqrt(mp.mpf(floor))) - 1
            assert 0.4e-15 < over < 1.6e-15


def test_where_leverages_say_nothing_the_worst_is_assumed():
    plain = DatasetBounds(1000, (-1.0, 3.0), inflation=0.001).family(7, 400.0)
    assert (plain.leverage, plain.cosine, plain.inflation) == (1.0, 1.0, 0.001)
    many = PUBLIC.family(7, 400.0, 20)
    assert (many.leverage, many.cosine) == (1.0, 1.0)
    assert PUBLIC.family(7, 400.0, 19).leverage == pytest.approx(0.95)
    for bags, floor, labels in [(0, 1.0, 1), (1, 0.0, 1), (1, 1.0, 0)]:
        with pytest.raises(InputError):
            PUBLIC.family(bags, floor, labels)


def test_a_sketch_is_its_family_beside_a_measurement():
    each = SketchProfile(PUBLIC, 7, 400.0, 0.3, 1e-3)
    assert each.family == PUBLIC.family(7, 400.0)
    assert each.delta(0.5) == each.family.delta(0.5, 0.3).plus(1e-3)
    assert each.quick_delta(0.5) == each.family.quick_delta(0.5, 0.3).plus(1e-3)
    assert each.group(1) == each
    four = each.group(2).group(2)
    assert four.labels == 4
    assert four.seen == pytest.approx(0.6)
    assert four.family == PUBLIC.family(7, 400.0, 4)
    assert four.delta(0.5) == four.family.delta(0.5, four.seen).plus(1e-3)
    assert four.factors() == LossFactors((four.family,), four.seen, slack=1e-3)
    assert four.epsilon_search(0.1) == SearchRange(0.0, MOST_EPSILON, 4.0, SearchRange.value)
    plain = SketchProfile(PUBLIC)
    assert (plain.bags, plain.floor, plain.mu, plain.slack, plain.labels) == (1, 1.0, 0.0, 0.0, 1)
    for bad in (
        lambda: SketchProfile(PUBLIC, 0),
        lambda: SketchProfile(PUBLIC, 1, 0.0),
        lambda: each.group(0),
        lambda: each.parameter_search("colour", 1.0, 0.1),
    ):
        with pytest.raises(InputError):
            bad()


# --- bags ----------------------------------------------------------------------------------------


def partitions(total, largest):
    if total == 0:
        yield ()
    for first in range(1, min(total, largest) + 1):
        for rest in partitions(total - first, first):
            yield (first, *rest)


@pytest.mark.parametrize(("rows", "labels"), [(30, 1), (30, 2), (30, 5), (2, 5), (3, 4)])
def test_labels_in_several_bags_cost_the_dearest_way_to_share_them(rows, labels):
    bag = SketchProfile(DatasetBounds(rows, (0.0, 1.0)), 1, 60.0, 0.05, 1e-5)
    law, epsilon = DisjointBagsProfile(bag).group(labels), 0.02
    bare = SketchProfile(DatasetBounds(rows, (0.0, 1.0)), 1, 60.0, 0.05)

    def cost(way, side):
        parts = (getattr(bare.group(size), side)(epsilon * size / labels).upper for size in way)
        return math.fsum(parts)

    for side in ("delta", "quick_delta"):
        dearest = max(cost(way, side) for way in partitions(labels, min(rows, labels)))
        found = getattr(law, side)(epsilon)
        assert found.upper == pytest.approx(min(1.0, dearest + 1e-5), rel=1e-12)
        assert found.upper >= min(1.0, dearest + 1e-5) * (1 - 1e-15)
        assert found.lower <= found.estimate <= found.upper
    whole = law.delta(epsilon).lower
    if labels > rows:
        assert whole == pytest.approx(1e-5)
    else:
        assert whole == pytest.approx(bare.group(labels).delta(epsilon).lower + 1e-5)


def test_one_label_is_in_one_bag():
    bag = SketchProfile(DatasetBounds(30, (0.0, 1.0)), 1, 60.0)
    law = DisjointBagsProfile(bag)
    assert law.delta(0.02) == bag.delta(0.02)
    assert law.quick_delta(0.02) == bag.quick_delta(0.02)
    assert law.factors() == bag.factors()
    assert law.inner_profile(0.1) == (bag, 0.1)
    assert law.group(2).factors() is None
    assert law.group(2).inner_profile(0.1) == (law.group(2), 0.1)
    assert law.group(2).group(3) == DisjointBagsProfile(bag, 6)
    assert DisjointBagsProfile(bag).labels == 1
    with pytest.raises(InputError):
        law.group(0)


def test_a_bag_of_a_size_is_a_sketch_of_one():
    law = BagOfSizeProfile((-1.0, 3.0), 2.0, 50, 4, 3.0, inflation=0.001, mu=0.1, slack=1e-6)
    found = law.sketch
    assert found.facts == DatasetBounds(50, (-1.0, 3.0), 4, 12 / 50, True, 0.001)
    assert (found.bags, found.mu, found.slack, found.labels) == (1, 0.1, 1e-6, 1)
    assert 0.4e-15 < 1 - found.floor / 100.0 < 1.6e-15
    assert law.delta(2.0) == found.delta(2.0)
    assert law.quick_delta(2.0) == found.quick_delta(2.0)
    assert law.group(2) == DisjointBagsProfile(found, 2)
    assert BagOfSizeProfile((0.0, 1.0), 2.0, 10, 4, 3.0).sketch.facts.max_leverage == 1.0
    assert BagOfSizeProfile((0.0, 1.0), 2.0, 10, 4).sketch.facts.max_leverage is None
    assert BagOfSizeProfile((0.0, 1.0), 2.0).bag_size == 1
    assert BagOfSizeProfile((0.0, 1.0), 2.0, 10, 4, 1.0).leverage_factor == 1.0
    for bad in (
        lambda: BagOfSizeProfile((0.0, 1.0), 0.0),
        lambda: BagOfSizeProfile((0.0, 1.0), 1.0, 10, None, 2.0),
        lambda: BagOfSizeProfile((0.0, 1.0), 1.0, 10, 4, 0.9),
        lambda: law.parameter_search("colour", 1.0, 0.1),
    ):
        with pytest.raises(InputError):
            bad()


def test_bags_with_no_more_rows_than_features_show_their_labels():
    assert spans_labels(5, 4) == ""
    assert spans_labels(4, 4) == (
        "bags of 4 rows with 4 independent features determine their labels: "
        "no ε, no δ below 1; bags need more than 4 rows, or added noise as their floor"
    )
    assert spans_labels(3, 4) != ""
