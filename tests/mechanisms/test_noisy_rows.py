"""noisy-rows: neighbours are as close as claimed and no closer, and the noise is what it says."""

from __future__ import annotations

import copy
import math
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from scipy import stats

from labeldp import DataError, InputError, Plan, PlanError, Release, scan, verify
from labeldp.data.source import Source
from labeldp.exact.label_sums import LabelGrid
from labeldp.mechanisms.noisy_rows import (
    ROW_NOISE_LAWS,
    NoisyRows,
    NoisyRowsClaim,
    RowNoise,
    least_noise,
    noisy_labels,
)
from labeldp.sampling.streams import Randomness
from tests.mechanisms.cases import EVERY, SHAPED, forged_tables, saved
from tests.plans import plan
from tests.tables import RANGE, source, table

ROWS = 400
Array = NDArray[np.float64]
LAW = {"laplace": stats.laplace, "gaussian": stats.norm}
BUDGETS = {"laplace": (1.0, 1e-5), "gaussian": (1.0, 0.1)}
"""For single rows Gaussian noise is better only at a large δ."""
by_law = pytest.mark.parametrize("law", ROW_NOISE_LAWS)


def made_plan(law: str = "laplace", rows: Source | None = None, **options: Any) -> Plan:
    epsilon, delta = BUDGETS[law]
    made = plan(rows or source(ROWS), epsilon, delta, mechanism=EVERY, **options)
    assert claim_of(made).noise.name == law
    return made


def claim_of(made: Plan) -> NoisyRowsClaim:
    assert isinstance(made.claim, NoisyRowsClaim)
    return made.claim


# --- the law ------------------------------------------------------------------------------


def drawn_noise(law: str, count: int) -> Array:
    """Noise over its scale on labels of a narrow grid, by the sampler."""
    grid, noise = LabelGrid.for_range(RANGE, intercept=True), RowNoise(law, 7.3)
    labels = np.random.default_rng(0).integers(0, 641, count) / 64
    drawn = noisy_labels(labels, grid, noise, Randomness.experiment(1))
    return (drawn - labels) / noise.scale


@by_law
def test_the_noise_has_its_law_and_not_a_scale_one_per_cent_off(law: str) -> None:
    """A million draws: the mean of |x| (of x²) is known to 0.1 %, so 1 % is ten deviations."""
    noise, count = drawn_noise(law, 1_000_000), 1_000_000
    assert stats.kstest(noise[:200_000], LAW[law].cdf).pvalue > 1e-4

    def distance(values: Array) -> float:
        if law == "laplace":
            return float((np.abs(values).mean() - 1) * math.sqrt(count))
        return float((np.square(values).mean() - 1) * math.sqrt(count / 2))

    assert abs(distance(noise)) < 4
    assert distance(1.01 * noise) > 6
    assert distance(0.99 * noise) < -6
    other = LAW["gaussian" if law == "laplace" else "laplace"]
    assert stats.kstest(noise[:200_000], other(scale=RowNoise(law, 1.0).std).cdf).pvalue < 1e-9


class Words:
    """A stream of random words that were chosen."""

    def __init__(self, words: NDArray[np.uint64]) -> None:
        self.words = words

    def integers(self, *_: Any, **__: Any) -> NDArray[np.uint64]:
        return self.words


@by_law
def test_whatever_a_label_gives_its_neighbour_gives_too(law: str) -> None:
    """The word that would give it is found and drawn, for 20,000 numbers at both ends."""
    grid, noise = LabelGrid.for_range(RANGE, intercept=True), least_noise(10.0, 1, *BUDGETS[law])
    low, high = np.full(20_000, RANGE[0]), np.full(20_000, RANGE[1])
    for one, two in ((low, high), (high, low)):
        shown = noisy_labels(one, grid, noise, Randomness.experiment(3))
        chance = LAW[law].cdf((shown - two) / noise.scale)
        chance = np.where(chance < 0.5, chance, LAW[law].sf((shown - two) / noise.scale))
        tail = np.minimum(chance * 2.0**64, 2.0**63 - 2**10).astype(np.uint64)
        upper = shown > two
        words = tail | (upper.astype(np.uint64) << np.uint64(63))
        chosen = Randomness.experiment(0)
        chosen.labels = Words(words)  # type: ignore[assignment]
        assert np.array_equal(noisy_labels(two, grid, noise, chosen), shown)


# --- the claim ----------------------------------------------------------------------------


def cells(claim: NoisyRowsClaim, label: float, coarser: int = 1) -> Array:
    """The chance of every cell that a label may be published in, by the textbook law."""
    step = math.ldexp(coarser, claim.noise.grid)
    reach = 45 * claim.noise.scale + claim.width
    borders = np.arange(-reach, reach, step) + step / 2
    law = LAW[claim.noise.name](label, claim.noise.scale)
    below = np.diff(law.cdf(borders), prepend=0.0)
    above = -np.diff(law.sf(borders), prepend=1.0)
    return np.where(borders < label, below, above)


def brute_delta(one: Array, two: Array, epsilon: float) -> float:
    return float(np.maximum(one - math.exp(epsilon) * two, 0.0).sum())


@by_law
def test_the_claim_is_the_true_curve_of_the_worst_neighbours(law: str) -> None:
    claim = claim_of(made_plan(law))
    one, two = (cells(claim, end) for end in RANGE)
    for epsilon in (0.0, 0.2, 0.5, 0.9):
        for p, q in ((one, two), (two, one)):
            true, claimed = brute_delta(p, q, epsilon), claim.delta_at(epsilon)
            assert 0.998 * claimed < true <= claimed * (1 + 1e-9)
    at_budget = brute_delta(one, two, claim.epsilon)
    if law == "laplace":
        assert claim.delta_at(claim.epsilon) == 0.0
        assert at_budget < 1e-12
        assert brute_delta(one, two, claim.epsilon * (1 - 1e-3)) > 1e-4, "and no smaller ε"
    else:
        assert 0.998 * claim.delta < at_budget <= claim.delta_at(claim.epsilon) <= claim.delta


@pytest.mark.parametrize("label_range", [(0.1, 0.7), (-3.3, 1000.1), (1e6, 1e6 + 600.3)])
def test_the_range_is_the_one_that_labels_have_on_their_grid(
    label_range: tuple[float, float],
) -> None:
    """Rounding may step over an end; ε·scale covers the distance of the codes, exactly."""
    labels = np.linspace(*label_range, ROWS)
    data = table(ROWS).set_column(4, "label", pa.array(labels))
    rows = scan(data, label="label", label_range=label_range, clip=True)
    for intercept in (True, False):
        made = made_plan(rows=rows, intercept=intercept)
        low, high = made.labels.codes(np.array(label_range))
        moved = (Fraction(high) - Fraction(low)) * Fraction(2) ** made.labels.exponent
        claim = claim_of(made)
        assert moved <= Fraction(claim.epsilon) * Fraction(claim.noise.scale)
        assert moved <= Fraction(claim.privacy_profile.pure_epsilon()) * Fraction(claim.noise.scale)
        assert claim.noise.scale <= 1.00001 * (label_range[1] - label_range[0])
    assert verify_in_memory(made, rows) == ()


def verify_in_memory(made: Plan, rows: Source) -> tuple[str, ...]:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        return verify(saved(made.release(rows), Path(folder) / "r")).problems


# --- persons ------------------------------------------------------------------------------


def with_ids(count: int) -> Source:
    """The first person has so many rows, the others one each."""
    ids = [0 if k < count else k for k in range(ROWS)]
    data = table(ROWS).append_column("id", pa.array(ids))
    return scan(data, label="label", label_range=RANGE, person="id")


@pytest.mark.parametrize(("law", "delta"), [("laplace", 0.0), ("gaussian", 0.1)])
def test_two_rows_of_a_person_moved_together_stay_within_the_claim(law: str, delta: float) -> None:
    """Both numbers of the person, by the textbook law on a coarser grid."""
    made = plan(with_ids(2), 1.0, delta, mechanism=EVERY)
    claim = claim_of(made)
    assert claim.person is not None
    assert (claim.person.rows, claim.noise.name) == (2, law)
    one, two = (cells(claim, end, coarser=32) for end in RANGE)
    seen = one + two > 1e-9
    one, two = one[seen], two[seen]
    both = np.multiply.outer(one, one), np.multiply.outer(two, two)
    crossed = np.multiply.outer(one, two), np.multiply.outer(two, one)
    for epsilon in (0.0, 0.3, 0.6, 1.0):
        claimed = claim.delta_at(epsilon)
        for p, q in (both, crossed):
            true = brute_delta(p, q, epsilon)
            assert true <= claimed * (1 + 1e-9) + 1e-7
            if law == "gaussian":
                assert true > 0.97 * claimed
    if law == "laplace":
        losses = np.log(both[0] / both[1])
        assert losses.max() == pytest.approx(1.0, rel=1e-9), "ε is reached"


def test_persons_are_priced_by_their_rows(tmp_path: Path) -> None:
    single = claim_of(made_plan()).noise.scale
    claim = claim_of(plan(with_ids(5), 1.0, 1e-6, mechanism=EVERY))
    assert claim.noise == RowNoise("laplace", pytest.approx(5 * single))
    many = plan(with_ids(20), 1.0, 1e-6, mechanism=EVERY)
    assert claim_of(many).noise.name == "gaussian"
    assert claim_of(many).noise.scale == pytest.approx(math.sqrt(20) * 10 / 0.2367, rel=2e-4)
    assert many.claim.delta_at(1.0) == pytest.approx(1e-6, rel=1e-6)
    with pytest.raises(PlanError, match="not those of the plan"):
        many.release(with_ids(21))
    folder = saved(many.release(with_ids(20)), tmp_path / "r")
    data = table(ROWS).append_column("id", pa.array([k // 20 for k in range(ROWS)]))
    assert verify(folder, data).problems == ()
    other = table(ROWS).append_column("id", pa.array([k // 40 for k in range(ROWS)]))
    assert "a person has 40 rows" in " ".join(verify(folder, other).problems)


def test_files_that_change_between_the_passes_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Persons are counted in one pass and labels read in the next: both must be of one table."""
    path = tmp_path / "t.parquet"
    pq.write_table(table(ROWS), path)
    made = made_plan(rows=scan(path, label="label", label_range=RANGE))

    def counted(*_: object) -> None:
        pq.write_table(table(ROWS, seed=1), path)

    monkeypatch.setattr("labeldp.mechanisms.noisy_rows.most_rows", counted)
    with pytest.raises(DataError, match="the files changed while they were read"):
        made.release(path, label="label")


# --- rows and columns ---------------------------------------------------------------------


def test_batches_change_nothing_and_leave_as_they_are_read(tmp_path: Path) -> None:
    made = made_plan(with_features=True)
    shown = []
    for batch_rows in (7, 400):
        rows = source(ROWS, batch_rows=batch_rows)
        shown.append(made.release(rows, randomness=Randomness.experiment(2)))
    assert shown[0].table.combine_chunks().equals(shown[1].table.combine_chunks())
    assert shown[0].certificate == shown[1].certificate
    made.release_to(
        tmp_path / "r", source(ROWS, batch_rows=11), randomness=Randomness.experiment(2)
    )
    assert Release.load(tmp_path / "r").certificate == shown[0].certificate


def test_a_batch_is_drawn_before_the_next_is_read(tmp_path: Path) -> None:
    """So that memory does not grow with the table."""

    data = table(ROWS)
    pq.write_table(data, tmp_path / "t.parquet", row_group_size=50)
    rows = scan(tmp_path / "t.parquet", label="label", label_range=RANGE, batch_rows=50)
    made, read = made_plan(rows=rows), []

    class Counting(type(rows.reader)):  # type: ignore[misc]
        def batches(self, *given: Any) -> Any:
            for batch in super().batches(*given):
                read.append(batch.num_rows)
                yield batch

    reader = copy.copy(rows.reader)
    object.__setattr__(reader, "__class__", Counting)
    watched = replace(rows, reader=reader)
    from labeldp.passes.engine import LocalEngine

    drawing = NoisyRows().run(made, watched, LocalEngine(), Randomness.experiment(0))
    read.clear()
    next(drawing.batches)
    assert sum(read) <= 100
    drawing.batches.close()


def test_rows_without_a_label_leave_a_gap_in_the_numbers(tmp_path: Path) -> None:
    """The numbers are those of the table that the reader has, labels or not."""
    labels = table(ROWS)["label"].to_pylist()
    missing = [0, 5, 6, ROWS - 1]
    for row in missing:
        labels[row] = None
    data = table(ROWS).set_column(4, "label", pa.array(labels, pa.float64()))
    rows = scan(data, label="label", label_range=RANGE, drop_missing_labels=True, batch_rows=64)
    left = [row for row in range(ROWS) if row not in missing]
    for with_features in (False, True):
        made = made_plan(rows=rows, with_features=with_features)
        folder = saved(made.release(rows), tmp_path / str(with_features))
        assert verify(folder, data).problems == ()
        release = Release.load(folder)
        assert release.table.column("row").to_pylist() == left
        public = table(ROWS).drop_columns(["label"])
        frames = [release.training_frame(each)[0] for each in (public, rows)]
        for frame in frames:
            assert frame.index.tolist() == left
            assert frame["score"].tolist() == data["score"].take(left).to_pylist()


def test_the_table_without_spark_is_asked_for() -> None:
    rows = source(ROWS)
    reader = copy.copy(rows.reader)
    object.__setattr__(reader, "__class__", type("Far", (type(reader),), {"on_cluster": True}))
    elsewhere = replace(rows, reader=reader)
    with pytest.raises(InputError, match="rows on Spark have none"):
        plan(elsewhere, 1.0, 1e-6, mechanism=EVERY, engine=None)


def test_names_and_ranges_that_cannot_be_published_are_refused() -> None:
    data = table(ROWS).rename_columns(["row", "score", "colour", "town", "label"])
    rows = scan(data, label="label", label_range=RANGE)
    assert made_plan(rows=rows).release(rows).holds_rows
    with pytest.raises(InputError, match="called 'row'"):
        made_plan(rows=rows, with_features=True)
    far = table(ROWS).set_column(4, "label", pa.array(np.full(ROWS, 1e15)))
    narrow = scan(far, label="label", label_range=(1e15, 1e15 + 1))
    with pytest.raises(InputError, match="too far from 0"):
        plan(narrow, 0.01, 0.0, mechanism=EVERY)


def test_a_feature_called_row_is_no_row_number() -> None:
    """Alone and without an intercept its design column has the same name as the number."""
    data = table(ROWS).select(["height", "label"]).rename_columns(["row", "label"])
    rows = scan(data, label="label", label_range=RANGE)
    release = made_plan(rows=rows, intercept=False).release(rows)
    assert release.features.names == ("row",)
    assert release.holds_rows
    assert release.needs_rows
    other = plan(rows, 1.0, 1e-5, mechanism=SHAPED, intercept=False).release(rows)
    assert not other.holds_rows


# --- verify -------------------------------------------------------------------------------


def altered(release: Release, name: str, values: Any) -> Release:
    place = release.table.column_names.index(name)
    field = release.table.schema.field(name)
    return forged_tables(release, release.table.set_column(place, field, pa.array(values)))


def test_forged_rows_are_noticed(tmp_path: Path) -> None:
    release = made_plan(with_features=True).release(source(ROWS))
    labels, rows = release.labels.copy(), release.table["row"].to_numpy().copy()
    far, bare = labels.copy(), np.round(table(ROWS)["label"].to_numpy() * 64) / 64
    far[7] += 2.0**20
    twice, score = rows.copy(), release.table["score"].to_numpy().copy()
    twice[3] = 2
    score[11] += 1
    forgeries = {
        "can take them": altered(release, "label:label", far),
        "than the noise demands": altered(release, "label:label", bare),
        "not numbers": altered(release, "label:label", np.where(rows == 3, np.nan, labels)),
        "increasing numbers": altered(release, "row", twice),
        "leaves out rows": altered(release, "row", rows + 1),
        "not those of the certificate": altered(release, "score", score),
    }
    for number, (words, forged) in enumerate(forgeries.items()):
        found = verify(saved(forged, tmp_path / str(number))).problems
        assert any(words in problem for problem in found), (words, found)


def test_features_that_encode_alike_are_still_compared_with_the_table(tmp_path: Path) -> None:
    """A rare level under another name is merged all the same: only the table tells."""
    data, towns = table(ROWS), table(ROWS)["town"].to_pylist()
    towns[9] = "rare"
    data = data.set_column(3, "town", pa.array(towns))
    rows = scan(data, label="label", label_range=RANGE)
    release = made_plan(rows=rows, with_features=True, min_count=5).release(rows)
    towns[9] = "seldom"
    forged = saved(altered(release, "town", towns), tmp_path / "r")
    assert verify(forged).problems == ()
    assert "not the table's" in " ".join(verify(forged, data).problems)


@by_law
def test_honest_releases_pass_the_checks_of_their_spread(law: str) -> None:
    """Labels at one end of the range or in its middle, where the fewest stray."""
    for value in (0.0, 5.0):
        labels = pa.array(np.full(ROWS, value))
        rows = scan(table(ROWS).set_column(4, "label", labels), label="label", label_range=RANGE)
        assert verify_in_memory(made_plan(law, rows), rows) == ()


@by_law
@pytest.mark.parametrize("share", [0.6, 1.0])
def test_noise_that_is_too_small_is_noticed_where_the_fewest_stray(law: str, share: float) -> None:
    """Labels in the middle of the range: with three fifths of the noise too many stay inside."""
    rows = scan(
        table(4000).set_column(4, "label", pa.array(np.full(4000, 5.0))),
        label="label",
        label_range=RANGE,
    )
    release = made_plan(law, rows).release(rows)
    labels = 5.0 + np.round((release.labels - 5.0) * share * 64) / 64
    problems = " ".join(NoisyRows().check(altered(release, "label:label", labels)))
    assert ("less from their range than the noise demands" in problems) is (share < 1)


# --- commands -----------------------------------------------------------------------------
