"""Bags at their limits: how many, which seeds pass, and which sums noise cannot make."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from labeldp import InputError, PlanError, Release
from labeldp.errors import DataError
from labeldp.exact.label_sums import LabelGrid
from labeldp.mechanisms import bags as module
from labeldp.mechanisms.bags import (
    BagRows,
    Draw,
    check_members,
    fresh_draw,
)
from labeldp.mechanisms.options import BagOptions
from labeldp.mechanisms.sampled_noisy_wtd_lag import (
    BagWeights,
    SampledNoisyWtdLag,
    draw_sums,
    label_grid,
    noisy_by_coins,
)
from labeldp.mechanisms.sampled_wtd_flag import SampledWtdFlag
from labeldp.passes.engine import LocalEngine
from labeldp.sampling.streams import Randomness, words
from tests.mechanisms.cases import NOISY, SAMPLED, Certificate, forged_tables, small_plan
from tests.tables import source, table

check, check_features = SampledNoisyWtdLag().check, SampledNoisyWtdLag().check_features
untested = SampledWtdFlag().not_checked
check_sampled, check_bags = SampledWtdFlag().check, SampledWtdFlag().check_features


def drawn(rows: int, bags: int, size: int, seed: int = 7, over_draw: bool = False) -> Draw:
    return Draw(rows, bags, size, f"{seed:064x}", over_draw, over_draw)


# --- draws ---------------------------------------------------------------------------------


def test_as_many_rows_in_bags_as_memory_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_MEMBERS", 60)
    drawn(1000, 12, 5)
    words = "^13 bags of 5 rows are too many to hold; ask for 12 at most$"
    with pytest.raises(InputError, match=words):
        drawn(1000, 13, 5)


def test_over_the_draw_delta_is_below_the_chance_of_a_bag() -> None:
    """Ten bags of 10 of 1,000 rows: a tenth of the rows."""
    over = drawn(1000, 10, 10, over_draw=True)
    assert over.chance == pytest.approx(0.1)
    assert over.chance >= Fraction(1, 10)
    options = BagOptions(over_draw=True)
    fresh_draw(options, 1000, 10, 10, 0.0999)
    for delta in (over.chance, 0.11):
        with pytest.raises(PlanError, match="leave labels without any protection"):
            fresh_draw(options, 1000, 10, 10, delta)
    fresh_draw(BagOptions(), 1000, 10, 10, 0.5)  # given the bags, δ has nothing to do with it
    with pytest.raises(InputError, match="needs bags that were drawn at random"):
        Draw(1000, 10, 10, "00" * 32, random=False, over_draw=True)


def test_bags_of_a_table_are_those_of_the_seed() -> None:
    draw = drawn(100, 6, 4)
    held = draw.table()
    assert held["bag"].to_pylist() == [bag for bag in range(6) for _ in range(4)]
    assert not check_members(held, draw)
    told = ["bags.parquet does not hold the bags that the certificate's seed gives"]
    assert check_members(held.slice(1), draw) == told
    assert check_members(drawn(100, 6, 4, 8).table(), draw) == told
    wild = Draw(100, 6, 4, f"{7:064x}", True, False)
    assert check_members(held, wild) == [
        "certificate: draw.seed was not drawn at random, whatever draw.random says"
    ]
    assert not check_members(held, draw), "a seed that was given may be any number"


# --- rows of bags --------------------------------------------------------------------------


def test_blocks_of_bags_are_the_bags_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rows, draw = source(400), drawn(400, 7, 5)
    features = small_plan(SAMPLED, rows, bags=7, bag_size=32).features
    held = BagRows(features, draw).read(rows, LocalEngine(1))
    heights = table(400)["height"].to_numpy()
    assert np.array_equal(held.wanted, np.sort(draw.members, axis=None))
    for bags in (1, 3, 7, 100):
        monkeypatch.setattr(module, "bags_at_once", lambda _features, _size, at=bags: at)
        parts = list(held.blocks())
        assert [part.start for part, _ in parts] == list(range(0, 7, bags))
        assert parts[-1][0].stop == 7
        numbers = np.concatenate([encoded.numbers for _, encoded in parts])
        alone = np.concatenate([held.bag(bag).numbers for bag in range(7)])
        assert np.array_equal(numbers, alone)
        column = numbers[:, 0]
        order = np.argsort(heights[draw.members.reshape(-1)], kind="stable")
        assert (np.diff(column[order]) >= 0).all()


# --- weights and coins ---------------------------------------------------------------------


@pytest.mark.parametrize("fraction", [0.25, 0.5, 1 - 2.0**-53, 2.0**-60])
def test_coins_are_words_below_their_part_of_two_to_the_64(fraction: float) -> None:
    draw = drawn(1000, 10, 50)
    tossed = words(draw.stream("noisy rows"), 500).tolist()
    expected = [Fraction(word) < Fraction(fraction) * 2**64 for word in tossed]
    assert noisy_by_coins(draw, fraction).reshape(-1).tolist() == expected
    assert noisy_by_coins(draw, fraction).shape == (10, 50)


def test_noise_and_mu_are_those_of_the_weights() -> None:
    values = np.array([[3.0, -4.0, 12.0], [1.0, 2.0, -2.0]])
    noisy = np.array([[True, True, False], [False, True, False]])
    weights = BagWeights(values, noisy)
    assert weights.noise(2.0).tolist() == [10.0, 4.0]
    assert label_grid(np.array([10.0, 4.0])) == 2 - 10


# --- sums ----------------------------------------------------------------------------------


@pytest.mark.parametrize("label_range", [(0.0, 10.0), (1e6, 1e6 + 1.0), (-3.0, -1.0)])
def test_sums_are_those_of_labels_with_the_noise_of_their_weights(
    label_range: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What goes to the sampler, against fractions: means, deviations, and their bounds."""
    seen: dict[str, Any] = {}

    def publish(mean: Any, error: Any, std: Any, grid: int, _randomness: Any, exact: Any) -> Any:
        seen.update(mean=mean, error=error, std=std, grid=grid, exact=exact)
        return np.rint(mean)

    monkeypatch.setattr("labeldp.sampling.rounded_noise.sample_rounded", publish)
    rng = np.random.default_rng(4)
    labels = LabelGrid.for_range(label_range, intercept=True)
    weights = BagWeights(rng.normal(size=(40, 6)), rng.random((40, 6)) < 0.7)
    weights.noisy[:, 0] = True
    values = rng.uniform(*label_range, size=(40, 6))
    drawn_sums = draw_sums(weights, values, labels, 0.3, -9, Randomness.experiment(0))
    step = Fraction(2) ** labels.exponent
    rounded = np.rint(np.ldexp(values, -labels.exponent))
    assert seen["grid"] == -9 - labels.exponent
    assert drawn_sums == pytest.approx((weights.values * values).sum(axis=1), abs=6 * float(step))
    for row in range(40):
        pairs = zip(weights.values[row].tolist(), rounded[row].tolist(), strict=True)
        mean = sum((Fraction(w) * Fraction(c) for w, c in pairs), Fraction(0))
        assert abs(Fraction(seen["mean"][row]) - mean) <= Fraction(seen["error"][row])
        noisy = weights.values[row][weights.noisy[row]].tolist()
        square = (Fraction(0.3) / step) ** 2 * sum((Fraction(w) ** 2 for w in noisy), Fraction(0))
        low, high = (Fraction(float(side[row])) for side in seen["std"])
        assert low**2 < square < high**2
        assert high < low * (1 + Fraction(1, 2**46))
        ball, deviation = seen["exact"](row, 53)
        assert abs(Fraction(float(ball)) - mean) <= abs(mean) / 2**50
        assert abs(Fraction(float(deviation)) ** 2 - square) <= square / 2**48
    size = np.abs(weights.values * rounded).sum(axis=1)
    assert (seen["error"] >= 7 * 2.0**-53 * size).all(), "what six products and their sum may lose"
    assert (seen["error"] <= 30 * 2.0**-52 * size).all()


# --- releases ------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def noisy() -> Release:
    return small_plan(NOISY, source(400), bag_seed=5).release(source(400))


@pytest.fixture(scope="module")
def sampled() -> Release:
    rows = source(400)
    return small_plan(SAMPLED, rows, bag_seed=5, floor="added").release(rows)


def altered(release: Release, name: str, values: Any, file: str | None = None) -> Release:
    held = release.files[file] if file else release.table
    place = held.column_names.index(name)
    other = held.set_column(place, held.schema.field(name), pa.array(values))
    return forged_tables(release, **{file or "table": other})


def claiming(release: Release, change: Callable[[Certificate], None]) -> Release:
    """The same with another claim; what its curve would be is not asked here."""
    certificate = copy.deepcopy(release.certificate)
    change(certificate)
    return replace(release, certificate=certificate)


def noise_of(release: Release) -> dict[str, Any]:
    return dict(release.certificate["noise"])


def with_noise(release: Release, **times: float) -> list[str]:
    def change(certificate: dict[str, Any]) -> None:
        noise = certificate["noise"]
        certificate["noise"] = noise | {k: by * noise[k] for k, by in times.items()}

    return list(check(claiming(release, change)))


def test_no_bag_has_more_than_the_mu_of_the_certificate(noisy: Release) -> None:
    """Weights follow from the seed and μ: with a smaller μ other weights would have been drawn."""
    assert not list(check(noisy))
    claimed, std = noise_of(noisy)["mu"], noise_of(noisy)["std"]
    weights = BagWeights.from_table(noisy.files["bags"], drawn(400, 20, 16))
    low, high = noisy.certificate["label_range"]
    mu = float(np.max(np.abs(weights.values).max(axis=1) / weights.noise(std))) * (high - low)
    assert mu <= claimed
    told = ["bags.parquet does not hold the weights that the certificate's seed gives"]
    assert with_noise(noisy, mu=mu * (1 + 1e-11) / claimed) == []
    assert with_noise(noisy, mu=mu * (1 - 1e-11) / claimed) == told
    with pytest.raises(PlanError, match="stay above"):
        with_noise(noisy, mu=0.01)


def test_the_noise_of_bags_is_that_of_their_weights(noisy: Release) -> None:
    name = noisy.table.column_names[0]
    told = [f"aggregates.parquet: {name} is not the noise of the bags"]
    shown = np.asarray(noisy.noise)
    for by, lines in ((0.6e-9, []), (1.8e-9, told), (-1.8e-9, told)):
        other = shown.copy()
        other[-1] *= 1 + by
        assert list(check(altered(noisy, name, other))) == lines


def test_weights_are_those_of_the_seed(noisy: Release) -> None:
    told = ["bags.parquet does not hold the weights that the certificate's seed gives"]
    values = noisy.files["bags"]["weight"].to_numpy().copy()
    small = int(np.argmin(np.abs(values)))
    for by, lines in ((0.5e-9, []), (1e-8, told), (-1e-8, told)):
        other = values.copy()
        other[small] += by
        assert list(check(altered(noisy, "weight", other, "bags"))) == lines


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_are_numbers(noisy: Release, value: float) -> None:
    values = noisy.files["bags"]["weight"].to_numpy().copy()
    values[3] = value
    told = ["bags.parquet has gaps, or weights that are not numbers"]
    assert list(check(altered(noisy, "weight", values, "bags"))) == told
    marks = noisy.files["bags"]["noisy"].to_pylist()
    assert list(check(altered(noisy, "noisy", [None, *marks[1:]], "bags"))) == told


def test_sums_are_within_their_weights_and_noise(noisy: Release) -> None:
    """Between Σ min(w·y) and Σ max(w·y), with half a step and what 20 normals reach in 1e-12."""
    told = ["aggregates.parquet has labels further from their range than the noise can take them"]
    name, bag = noisy.table.column_names[-1], 3
    values = noisy.files["bags"]["weight"].to_numpy().reshape(20, 16)
    step = 2.0 ** noisy.certificate["numerics"]["grid_exponent"]
    ends = np.multiply.outer(noisy.certificate["label_range"], values[bag])
    far = stats.norm.isf(1e-12 / 20) * noisy.noise[bag] + step / 2
    for sign, end in ((1, ends.max(axis=0).sum()), (-1, ends.min(axis=0).sum())):
        for steps, lines in ((0, []), (1, told)):
            other = np.asarray(noisy.labels).copy()
            other[bag] = sign * (np.floor((sign * end + far) / step) + steps) * step
            assert list(check(altered(noisy, name, other))) == lines


def test_other_intercepts_and_other_tables_are_told(noisy: Release, sampled: Release) -> None:
    other = claiming(noisy, lambda c: c.update(constant_in_span=False))
    differ = "features.json and the certificate differ on whether there is an intercept"
    assert list(check(other)) == [differ]
    for release, asked in ((noisy, check_features), (sampled, check_bags)):
        assert not list(asked(release, source(400), LocalEngine(1)))
        with pytest.raises(DataError, match="bags' rows are not those of the release"):
            list(asked(release, source(400, seed=5), LocalEngine(1)))
        with pytest.raises(DataError, match="399"):
            list(asked(release, source(399), LocalEngine(1)))


def claimed(release: Release, **changes: Any) -> Release:
    def change(certificate: dict[str, Any]) -> None:
        for name, value in changes.items():
            inside = certificate["draw"] if name in certificate["draw"] else certificate
            inside[name] = value

    return claiming(release, change)


def test_leverage_rank_and_inflation_are_no_less_than_those_of_the_bags(sampled: Release) -> None:
    """A plan leaves room for rounding; a release that claims less than its table has is told."""
    certificate = sampled.certificate
    leverage, rank = certificate["max_leverage"], certificate["draw"]["bag_rank"]
    engine = LocalEngine(1)

    def asked(**changes: Any) -> list[str]:
        return list(check_bags(claimed(sampled, **changes), source(400), engine))

    less = leverage * (1 - 1.6e-9)
    assert asked(max_leverage=less) == [
        f"the largest leverage is {leverage:.6g}, the certificate says {less:.6g}"
    ]
    assert asked(bag_rank=rank - 1) == [f"a bag has rank {rank}, the certificate says {rank - 1}"]
    assert not asked(inflation=2.0**-30 + 1e-10)
    told = ["the certificate's inflation is too small for these features"]
    assert asked(inflation=2.0**-30) == told, "the sampler's rounding alone"


def test_the_rank_of_bags_is_one_that_they_can_have(sampled: Release) -> None:
    told = "certificate: draw.bag_rank is no rank that a bag of these columns can have"
    rank = sampled.certificate["rank"]
    for wrong, fine in ((rank, True), (rank + 1, False), (0, True)):
        assert (told in list(check_sampled(claimed(sampled, bag_rank=wrong)))) is not fine
