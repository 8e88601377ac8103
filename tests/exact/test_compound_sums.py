"""Sums and leverages by compound codes against dense twins, over many schemas."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings, strategies as st

from labeldp.data.source import Source, scan
from labeldp.errors import DataError
from labeldp.exact import quadratic_form
from labeldp.exact.cholesky import verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelGrid
from labeldp.exact.quadratic_form import Leverage, LeverageScan, QuadraticForm
from labeldp.features import encoder
from labeldp.features.encoder import Encoded, Encoder, JointCategoryCodes
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from tests.exact.test_exact_sums import dense_codes

RANGE = (0.0, 10.0)


@st.composite
def schemas(draw: st.DrawFn) -> tuple[Source, FeatureMap]:
    """0 to 5 categories, 0 to 3 numbers (some missing), with or without a constant."""
    sizes = draw(st.lists(st.integers(2, 9), max_size=5))
    numbers = draw(st.integers(0 if sizes else 1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = draw(st.integers(40, 120))
    columns: dict[str, pa.Array] = {}
    for place in range(numbers):
        values = np.round(rng.normal(scale=10.0**place, size=rows), 2)
        gap = rng.random(rows) < draw(st.sampled_from([0.0, 0.2]))
        columns[f"x{place}"] = pa.array(values, mask=gap)
    for place, size in enumerate(sizes):
        shares = rng.dirichlet(np.full(size, 0.7))
        columns[f"c{place}"] = pa.array(rng.choice(size, rows, p=shares))
    columns["y"] = pa.array(rng.uniform(*RANGE, rows))
    kinds = [f"c{place}" for place in range(len(sizes))]
    source = scan(pa.table(columns), label="y", label_range=RANGE, categorical=kinds)
    try:
        features = fit_features(
            source, min_count=draw(st.sampled_from([1, 5])), intercept=draw(st.booleans())
        )
    except DataError:
        assume(False)
    return source, features


@given(schemas())
@settings(max_examples=40)
def test_sums_equal_the_dense_twin(made: tuple[Source, FeatureMap]) -> None:
    source, features = made
    grid = LabelGrid.for_range(RANGE, intercept=features.intercept)
    x = dense_codes(features, source)
    ((batch, labels),) = source.labelled_batches()
    y = np.array([int(code) for code in grid.codes(labels)], dtype=object)
    starts = range(0, batch.num_rows, 37)
    pieces = [(features.encode(batch.slice(k, 37)), labels[k : k + 37]) for k in starts]
    gram, moments = GramAccumulator(features), LabelCrossProducts(features, grid)
    for piece, some in pieces:
        gram.add(piece)
        moments.add(piece, some)
    total, private = gram.result(), moments.result()
    assert (total.exact(range(x.shape[1])) == x.T @ x).all()
    assert (private.cross == x.T @ y).all()
    assert (private.square, private.total, private.rows) == (y @ y, y.sum(), len(y))


@given(schemas())
@settings(max_examples=25)
def test_leverages_are_upper_bounds_and_the_same_bytes_however_cut(
    made: tuple[Source, FeatureMap],
) -> None:
    source, features = made
    sums = GramAccumulator(features)
    (batch,) = source.feature_batches()
    sums.add(features.encode(batch))
    try:
        factor = verified_cholesky(sums.result(), features)
    except DataError:
        assume(False)
    seen = set()
    encoded = {
        step: [
            (features.encode(batch.slice(start, step)), None, start)
            for start in range(0, batch.num_rows, step)
        ]
        for step in (1, 7, batch.num_rows)
    }
    for many, pieces in product((1, 99), encoded.values()):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                quadratic_form, "MANY_NUMBERS", many
            )  # 99: every row is looked at closely
            scan_ = LeverageScan(features, factor)
            parts = [scan_.new(), scan_.new()]
            for place, piece in enumerate(reversed(pieces)):
                parts[place % 2].add(*piece)
            parts[0].merge(parts[1].state())
            found = parts[0].result()
            seen.add(found)
    (found,) = seen
    maximum = found.maximum
    truth = exact_leverages(dense_codes(features, source)[:, list(factor.kept)])
    assert max(truth) <= maximum
    assert maximum <= float(max(truth)) * (1 + 1e-6) + 1e-9 or maximum == 1.0


@pytest.mark.parametrize("step", [100, 999, 3000])
def test_of_many_numbers_a_few_rows_are_looked_at_closely(
    step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also with rows that come twice, at different places of a batch."""
    rng = np.random.default_rng(step)
    values = rng.standard_t(4, size=(1500, 12)).round(2)
    columns = dict(zip("abcdefghijkl", np.vstack([values, values[::-1]]).T, strict=True))
    source = scan(pa.table(columns | {"town": rng.choice(["p", "q", "r"], 3000)}))
    features = fit_features(source)
    (batch,) = source.feature_batches()
    sums = GramAccumulator(features)
    sums.add(features.encode(batch))
    factor = verified_cholesky(sums.result(), features)
    closely = list[int]()

    def found(many: int) -> Leverage:
        monkeypatch.setattr(quadratic_form, "MANY_NUMBERS", many)
        scan_ = LeverageScan(features, factor)
        for start in range(0, 3000, step):
            scan_.add(features.encode(batch.slice(start, step)), None, start)
        return scan_.result()

    def counting(form: QuadraticForm, rows: Encoded, *, rough: bool = False) -> Any:
        closely.append(0 if rough else rows.rows)
        return form_of_rows(form, rows, rough=rough)

    form_of_rows = QuadraticForm.__call__
    monkeypatch.setattr(QuadraticForm, "__call__", counting)
    few = found(1)
    assert sum(closely) <= 20 * len(closely) / 2
    closely.clear()
    assert few == found(99)
    assert sum(closely) == 3000


def exact_leverages(x: np.ndarray) -> list[Fraction]:
    from flint import fmpq_mat, fmpz_mat

    whole = fmpz_mat([[int(entry) for entry in row] for row in x])
    inverse = fmpq_mat(whole.transpose() * whole).inv()
    form = fmpq_mat(whole) * inverse * fmpq_mat(whole.transpose())
    return [Fraction(int(form[i, i].p), int(form[i, i].q)) for i in range(len(x))]


@given(st.lists(st.integers(2, 400), max_size=9))
@settings(max_examples=50)
def test_groups_partition_the_categories_and_stay_small(sizes: list[int]) -> None:
    joint = JointCategoryCodes.of(sizes)
    assert sorted(member for group in joint.groups for member in group) == list(range(len(sizes)))
    for group, width in zip(joint.groups, joint.widths, strict=True):
        assert len(group) == 1 or width <= encoder._MOST_CODES


def test_many_categories_take_no_more_cells_than_the_gram_matrix_needs() -> None:
    many = JointCategoryCodes.of([10] * 300)
    assert many.cells <= max(encoder._MOST_CELLS, comb(300, 2) * 10 * 10)


@given(st.lists(st.integers(2, 6), min_size=1, max_size=5), st.integers(0, 2**32 - 1))
@settings(max_examples=40)
def test_compound_codes_name_the_levels_of_every_member(sizes: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    joint = JointCategoryCodes.of(sizes)
    categories = [rng.integers(0, size, 50).astype(np.int32) for size in sizes]
    codes = joint.join(categories)
    for group, (code, width) in enumerate(zip(codes, joint.widths, strict=True)):
        assert code.min() >= 0
        assert code.max() < width
        for member, levels in joint.levels(group):
            assert np.array_equal(levels[code], categories[member])
    split = Encoded(50, np.empty((50, 0)), codes, joint).categories
    assert [levels.tolist() for levels in split] == [c.tolist() for c in categories]


@pytest.mark.parametrize(
    ("sizes", "kinds"),
    [((256,), ["u1"]), ((257,), ["u2"]), ((16, 16), ["u1"]), ((16, 17), ["u2"])],
)
def test_every_level_is_found_again_in_the_narrowest_codes(
    sizes: tuple[int, ...], kinds: list[str]
) -> None:
    """Every pair of levels occurs, so the largest code does; all from the table and packed."""
    grid = np.indices(sizes).reshape(len(sizes), -1)
    rows = {f"c{k}": [f"{v:03}" for v in line] for k, line in enumerate(grid)}
    data = scan(pa.table(rows), categorical=list(rows))
    features = fit_features(data, min_count=1)
    (batch,) = data.feature_batches()
    encoder = Encoder(features)
    for rows in (batch, encoder.pack(batch)):
        encoded = encoder(rows)
        assert [codes.dtype for codes in encoded.codes] == [np.dtype(kind) for kind in kinds]
        assert [c.tolist() for c in encoded.categories] == grid.tolist()
