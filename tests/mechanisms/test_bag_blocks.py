"""Bags in blocks are the same release as bags one by one; the rows of bags are the table's."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import DataError, LocalEngine, scan
from labeldp.data import readers
from labeldp.data.source import Source
from labeldp.exact import stacked
from labeldp.exact.label_sums import ExactLeastSquares, LabelGrid
from labeldp.exact.stacked import BagFits
from labeldp.features.fit import fit_features
from labeldp.mechanisms import bags as bags_module, sampled_wtd_flag as run
from labeldp.mechanisms.bags import BagRows, Draw, distinct
from labeldp.sampling.streams import Randomness, public_stream, words
from tests.mechanisms.cases import SAMPLED
from tests.plans import plan
from tests.tables import RANGE, table


def rare_labels(rows: int = 1500) -> Source:
    """Labels that are 0 in whole bags, and levels that bags lack."""
    rng = np.random.default_rng(4)
    label = np.where(rng.random(rows) < 0.03, 7.0, 0.0)
    data = table(rows).drop_columns("label").append_column("label", pa.array(label))
    return scan(data, label="label", label_range=RANGE)


def ordinary(rows: int = 1500) -> Source:
    return scan(table(rows), label="label", label_range=RANGE)


def released(rows: Source, shape: tuple[int, int], **options: Any) -> tuple[Any, Any]:
    bags, size = shape
    given = {"epsilon": 2.0, "delta": 1e-4, "bag_seed": 7, **options}
    made = plan(rows, mechanism=SAMPLED, bags=bags, bag_size=size, **given)
    release = made.release(rows, randomness=Randomness.experiment(11))
    return made.claim, release


CASES = [
    (ordinary, (40, 30), {}),
    (ordinary, (70, 20), {"floor": "added"}),
    (ordinary, (60, 7), {"floor": "added"}),  # as few rows as columns
    (ordinary, (5, 280), {"floor": "declared", "residual_ms": 0.7, "epsilon": 200.0}),
    (rare_labels, (50, 24), {}),
]


@pytest.mark.parametrize(("make", "shape", "options"), CASES)
def test_blocks_release_what_a_loop_over_bags_does(
    make: Any, shape: tuple[int, int], options: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim, release = released(make(), shape, **options)
    with monkeypatch.context() as patch:
        patch.setattr(stacked, "MOST_BAG_COLUMNS", 0)  # every bag alone, exactly
        patch.setattr(stacked, "_BLOCK_ENTRIES", 1)
        slow_claim, slow = released(make(), shape, **options)
    assert claim.bag_rank == slow_claim.bag_rank
    assert claim.inflation == slow_claim.inflation
    assert claim.max_leverage == pytest.approx(slow_claim.max_leverage, rel=1e-10)
    assert release.certificate["floor"] == slow.certificate["floor"] | {
        "needed": pytest.approx(slow.certificate["floor"]["needed"], rel=1e-9),
        "added_variance": pytest.approx(slow.certificate["floor"]["added_variance"], rel=1e-9),
    }
    for name in release.table.column_names:
        mine, theirs = (r.table.column(name).to_numpy() for r in (release, slow))
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)
    if claim.floor == slow_claim.floor:
        assert release.table.column(-1).equals(slow.table.column(-1)), "labels to the last bit"


def test_bags_that_stand_alone_within_a_block_are_released_as_in_a_stack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Several of them in each of several blocks: every one with its own rows and labels."""
    _, expected = released(ordinary(), (24, 30), floor="added")
    monkeypatch.setattr(stacked, "MOST_BAG_COLUMNS", 0)
    monkeypatch.setattr(bags_module, "bags_at_once", lambda *_: 7)
    _, release = released(ordinary(), (24, 30), floor="added")
    assert release.labels == pytest.approx(expected.labels, rel=1e-9)
    np.testing.assert_allclose(release.design, expected.design, rtol=1e-9, atol=1e-9)


def test_labels_in_doubt_are_settled_exactly(monkeypatch: pytest.MonkeyPatch) -> None:
    """With bounds a million times wider hardly a cell is certain, and none changes."""
    _, expected = released(ordinary(), (40, 30))
    inner, exact = run.fit_stacked_bags, []

    def wide(*arguments: Any) -> BagFits:
        fits = inner(*arguments)
        middle = fits.high
        return BagFits(fits.slope, fits.slope_error * 1e12, 0.99 * middle, 1.01 * middle)

    def counted(*arguments: Any) -> ExactLeastSquares:
        exact.append(1)
        return ExactLeastSquares(*arguments)

    monkeypatch.setattr(run, "fit_stacked_bags", wide)
    monkeypatch.setattr(run, "ExactLeastSquares", counted)
    _, release = released(ordinary(), (40, 30))
    assert len(exact) > 30
    assert release.table.equals(expected.table)


def test_of_many_residuals_that_are_zero_one_is_settled(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def counted(*arguments: Any) -> ExactLeastSquares:
        made.append(1)
        return ExactLeastSquares(*arguments)

    monkeypatch.setattr(run, "ExactLeastSquares", counted)
    released(rare_labels(), (50, 24))
    assert len(made) == 1


def test_blocks_of_any_size_release_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    _, whole = released(ordinary(), (40, 30))
    for numbers in (1, 30 * 10 * 7):
        monkeypatch.setattr(stacked, "_BLOCK_ENTRIES", numbers)
        assert released(ordinary(), (40, 30))[1].table.equals(whole.table)


def test_bags_whose_features_are_all_zero_are_released() -> None:
    """Without an intercept a bag may have no column at all: its label is N(0, Σy² + added)."""
    rng = np.random.default_rng(0)
    label = rng.choice([2.0, 7.0], 1500)
    data = pa.table({"rare": (rng.random(1500) < 0.02) * 2.5, "label": label})
    source = scan(data, label="label", label_range=RANGE)
    claim, release = released(source, (300, 5), intercept=False)
    empty = release.table.column(0).to_numpy() == 0.0
    assert empty.any()
    assert not empty.all()
    members = claim.draw.members[empty]
    std = np.sqrt(
        np.square(label[members]).sum(axis=1) + release.certificate["floor"]["added_variance"]
    )
    scores = release.table.column(-1).to_numpy()[empty] / std
    assert 0.8 < scores.std() < 1.2
    assert abs(scores.mean()) < 0.25


def saved(folder: Path, data: pa.Table) -> Path:
    """Four files, which are parts that threads may read at the same time."""
    for number in range(4):
        pq.write_table(data[number * 1500 : (number + 1) * 1500], folder / f"{number}.parquet")
    return folder


def encoded_twin(data: pa.Table, draw: Draw, rows: BagRows, source: Source) -> None:
    """Every bag has the features of its rows."""
    features = fit_features(source)
    dense = features.integers(features.encode(data.combine_chunks().to_batches()[0]))
    for number in (0, draw.bags - 1):
        assert np.array_equal(features.integers(rows.bag(number)), dense[draw.members[number]])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("dropped", [False, True])
def test_rows_of_bags_are_the_tables(
    tmp_path: Path, threads: int, dropped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Read by several threads, from several parts, with rows left out before."""
    monkeypatch.setattr(readers, "_PART_ROWS", 1500)
    data = table(6000)
    labels = data["label"].to_numpy().copy()
    if dropped:
        labels[::17] = np.nan
    holed = data.set_column(4, "label", pa.array(labels, from_pandas=True))
    path = saved(tmp_path, holed)
    source = scan(
        path, label="label", label_range=RANGE, drop_missing_labels=dropped, batch_rows=400
    )
    assert len(source.parts()) > 1
    whole = holed.filter(pa.array(~np.isnan(labels)))
    draw = Draw.new(len(whole), 100, 20, over_draw=False, seed=1)
    rows = BagRows(fit_features(source), draw)
    values = rows.read_labelled(source, LocalEngine(threads))
    assert np.array_equal(values, whole["label"].to_numpy()[draw.members])
    encoded_twin(whole, draw, rows, source)
    again = BagRows(fit_features(source), draw).read(source, LocalEngine(threads))
    assert again.digest() == rows.digest()


def test_a_bad_label_outside_every_bag_is_refused_and_other_tables_too(tmp_path: Path) -> None:
    data = table(6000)
    draw = Draw.new(6000, 10, 20, over_draw=False, seed=1)
    outside = next(row for row in range(5999, 0, -1) if row not in draw.members)
    labels = data["label"].to_numpy().copy()
    labels[outside] = 99.0
    wrong = data.set_column(4, "label", pa.array(labels))
    source = scan(saved(tmp_path, wrong), label="label", label_range=RANGE)
    rows = BagRows(fit_features(source), draw)
    with pytest.raises(DataError, match="outside the range"):
        rows.read_labelled(source, LocalEngine(2))
    rows.read(source, LocalEngine(2))
    last = int(draw.members.max())
    for count in (last, last + 1):
        short = scan(table(6000)[:count], label="label", label_range=RANGE)
        with pytest.raises(DataError, match="was made from 6000"):
            BagRows(fit_features(source), draw).read(short, LocalEngine(1))


def test_a_seed_means_the_bags_it_always_meant() -> None:
    for population, count in ((1000, 900), (100_000, 3000)):
        mine = distinct(public_stream("s", "bags"), population, count)
        drawn = words(public_stream("s", "bags"), max(population, 2 * count + 64))
        if 2 * count > population:
            expected = np.argsort(drawn[:population], kind="stable")[:count]
        else:
            below = (drawn[: 2 * count + 64] % np.uint64(population)).astype(np.int64)
            expected = below[np.sort(np.unique(below, return_index=True)[1])][:count]
        assert np.array_equal(mine, expected)


# --- what is said of bags, and the law of their labels ---------------------------------------


def test_what_holds_of_every_bag_is_the_worst_of_all_blocks() -> None:
    bounds = run.BagBounds()
    for rank, leverage, error in ((3, 0.1, 2e-5), (4, 0.4, 1e-5), (2, 0.2, 3e-6)):
        block: Any = SimpleNamespace(
            rank=np.array([1, rank]),
            leverages=lambda leverage=leverage: np.array([leverage, 0.05]),
            error_bound=np.array([1e-7, error]),
        )
        bounds.add(block)
    assert bounds == run.BagBounds(4, 0.4, 2e-5)


def bags_of_fits(low: Any, high: Any) -> Any:
    """Bags of which nothing is known but bounds of σ, in label codes of ¼."""
    bags: Any = object.__new__(run.LabelledBags)
    ends = np.array(low, dtype=float), np.array(high, dtype=float)
    zeros = np.zeros((len(ends[0]), 1))
    bags._fits = [BagFits(zeros, zeros, *ends)]
    bags._labels = LabelGrid(0.0, 1.0, -2, 0)
    bags._features = SimpleNamespace(intercept=False)
    bags._rows = SimpleNamespace(blocks=lambda: [(slice(0, len(zeros)), None)], bag=lambda _: None)
    return bags


@pytest.mark.parametrize("added", [0.0, 0.37, 1e6])
def test_deviations_of_bags_are_enclosed(added: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """√(σ² + added) against fractions; both bounds are as near as doubles are."""
    seen: list[Any] = []

    def publish(mean: Any, _error: Any, scale: Any, *_rest: Any) -> Any:
        seen.append(scale)
        return mean

    monkeypatch.setattr(run.rounded_noise, "sample_rounded", publish)
    monkeypatch.setattr(run, "stacked_design", lambda *_: np.zeros((300, 2, 1)))
    roots = np.random.default_rng(1).uniform(1.0, 1000.0, 300)
    list(bags_of_fits(roots, roots).draw(added / 16, -10, Randomness.experiment(0)))
    for root, down, up in zip(roots.tolist(), *(end.tolist() for end in seen[0]), strict=True):
        square = Fraction(root) ** 2 + Fraction(added)
        assert Fraction(down) ** 2 <= square <= Fraction(up) ** 2
        assert Fraction(up) ** 2 < Fraction(down) ** 2 * (1 + Fraction(4, 2**49))


def test_a_bag_whose_residual_may_be_the_smallest_is_settled() -> None:
    """Of σ in [1, 8], [2, 3] and [9, 10] the first may be the smallest, although its end is not."""
    bags = bags_of_fits([1, 2, 9], [8, 3, 10])
    bags._residual = lambda bag: (None, SimpleNamespace(bag=int(bag), square_high=Fraction(9)))
    assert [residual.bag for residual in bags.smallest_residuals()] == [1, 0]
