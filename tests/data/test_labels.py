"""Labels: checked as a whole after the last row, converted, and never told."""

from __future__ import annotations

import datetime
import decimal
import json
import math
import traceback
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings, strategies as st

from labeldp import DataError, InputError, scan, verify
from labeldp.data.labels import LabelCheck, LabelParser
from tests.extras import extra
from tests.plans import plan
from tests.tables import told

SECRET = 7319.25  # outside every range below, and easy to find in a message
UNNAMED = "(the rows are not named because labels are private)"
FAULTS = {
    "text": "holds text that is not a number",
    "infinite": "holds infinities; replace or remove those rows",
    "missing": "has missing values; pass `drop_missing_labels`",
    "outside": "has values outside the range -1 to 10; widen the range or pass `clip=True`",
}
"""The graver before the lesser."""


def labels_of(data: Any, **options: Any) -> np.ndarray:
    options = {"label": "y", "label_range": (0, 10)} | options
    return np.concatenate([y for _, y in scan(data, **options).labelled_batches()])


def table(labels: Any, type_: pa.DataType | None = None) -> pa.Table:
    return pa.table({"x": list(range(len(labels))), "y": pa.array(labels, type_)})


def stored(columns: pa.Table, form: str, place: Path) -> Any:
    """The table in a file, or as it is."""
    path = place / f"t.{form}"
    if form == "csv":
        columns.to_pandas().to_csv(path, index=False)
    elif form == "parquet":
        pq.write_table(columns, path)
    return columns if form == "table" else path


@pytest.mark.parametrize(
    ("values", "clip", "raised", "cleaned"),
    [
        ([-1.0, 3.0, 10.0], False, [], [-1.0, 3.0, 10.0]),
        ([3.0, math.nan], False, ["missing"], [3.0, -1.0]),
        ([3.0, math.nan], True, ["missing"], [3.0, -1.0]),
        ([3.0, math.inf], False, ["infinite"], None),
        ([3.0, -math.inf], True, ["infinite"], None),
        ([3.0, 10.5], False, ["outside"], None),
        ([3.0, -1.5], False, ["outside"], None),
        ([3.0, 10.5, -1.5], True, [], [3.0, 10.0, -1.0]),
        ([math.nan, math.inf, 11.0], False, ["infinite", "missing", "outside"], None),
    ],
)
def test_every_fault_raises_its_own_flag(
    values: list[float], clip: bool, raised: list[str], cleaned: list[float] | None
) -> None:
    check = LabelCheck("y", -1.0, 10.0, clip)
    found = check.clean(np.array(values), ())
    assert check.raised == {*raised}
    assert ((found >= -1.0) & (found <= 10.0)).all()
    assert cleaned is None or found.tolist() == cleaned


@given(st.lists(st.floats(width=32), max_size=40), st.floats(-1e3, 0), st.floats(0.5, 1e3))
@settings(max_examples=100)
def test_labels_are_moved_into_the_range_and_what_was_wrong_is_remembered(
    some: list[float], low: float, high: float
) -> None:
    wrong = {
        "missing": any(map(math.isnan, some)),
        "infinite": any(map(math.isinf, some)),
        "outside": any(not low <= v <= high for v in some if math.isfinite(v)),
    }
    check = LabelCheck("y", low, high, clip=False)
    found = check.clean(np.array(some, dtype=np.float64), ())
    assert check.raised == {flag for flag, held in wrong.items() if held}
    assert found.tolist() == [min(max(v, low), high) if math.isfinite(v) else low for v in some]


@pytest.mark.parametrize("flag", FAULTS)
def test_the_gravest_fault_of_all_parts_is_the_one_that_is_told(flag: str) -> None:
    for raised in ([flag], [*FAULTS][[*FAULTS].index(flag) :]):
        check = LabelCheck("y", -1.0, 10.0, clip=False)
        check.raised.update(raised)
        check.clean(np.array([1.0]), [])
        with pytest.raises(DataError) as refusal:
            check.finish()
        assert str(refusal.value).startswith(f"label column 'y' {FAULTS[flag]}")
        assert str(refusal.value).endswith(UNNAMED)


@pytest.mark.parametrize("encode", [False, True])
@pytest.mark.parametrize(
    ("texts", "values", "flags"),
    [
        (["1.5", " 2 ", "-3e1"], [1.5, 2.0, -30.0], {"unit:"}),
        (["true", "FALSE", "Yes", "no ", "N"], [1.0, 0.0, 1.0, 0.0, 0.0], {"unit:"}),
        (["1.5", None, "", "NA", "?"], [1.5, math.nan, math.nan, math.nan, math.nan], {"unit:"}),
        (["1.5", "many"], [1.5, math.nan], {"text"}),
        (["inf", "-Infinity", "+INF", "2"], [math.inf, -math.inf, math.inf, 2.0], {"unit:"}),
        (["1,234.5", "7"], [1234.5, 7.0], {"unit:"}),
        (["239.5 TL", "1,000 TL"], [239.5, 1000], {"unit:tl"}),
        (["$5", "6"], [5, 6], {"unit:$", "unit:"}),
        (["239.5 talers", "1 taler"], [239.5, 1], {"unit:taler"}),
        ([f"{k} unit{chr(97 + k)}{chr(98 + k)}" for k in range(20)], range(20), {"text"}),
    ],
)
def test_texts_are_numbers_missing_or_unreadable(
    texts: list[str | None], values: Any, flags: set[str], encode: bool
) -> None:
    array = pa.array(texts)
    found, raised = LabelParser().parse(array.dictionary_encode() if encode else array)
    np.testing.assert_array_equal(found, list(values))
    assert raised == flags


@pytest.mark.parametrize(
    "parts",
    [
        [["5 kg", "500 mg"]],
        [["5 kg"], ["500 mg"]],
        [["5 kg"], ["7"]],
        [["45%"], ["45"]],
        [["$5"], ["€5"]],
        [["3 lakh"], ["250000"]],
    ],
)
def test_labels_in_several_units_are_refused(parts: list[list[str]]) -> None:
    """Whichever part of the table they stand in, and after the last."""
    check, again = (LabelCheck("y", 0.0, 2000.0, clip=False) for _ in range(2))
    for texts in parts:
        check.clean(*LabelParser().parse(pa.array(texts)))
    again.raised.update(check.raised)
    for each in (check, again):
        with pytest.raises(DataError, match=r"'y' holds .* numbers in different units"):
            each.finish()


@pytest.mark.parametrize("encode", [False, True])
def test_rows_that_have_a_label_are_those_without_a_blank(encode: bool) -> None:
    """Only usual words for missing are blanks: others may be answers."""
    blanks = [None, " NA ", "?", "-", "", "Unknown", "n.a.", "none"]
    others = ["1", "1O0", "$9", "x", "ABS", "refused", "k.A.", "nil", "yes", "False", "inf"]
    texts = pa.array([*blanks, *others])
    shown = LabelParser().has_label(texts.dictionary_encode() if encode else texts)
    assert shown.to_pylist() == [False] * len(blanks) + [True] * len(others)
    numbers = LabelParser().has_label(pa.array([1.0, None, math.nan, 0.0]))
    assert numbers.to_pylist() == [True, False, False, True]


@pytest.mark.parametrize(
    "labels",
    [
        pa.array([0, 1, 10], pa.int8()),
        pa.array([0, 1, 10], pa.uint64()),
        pa.array([0, 1, 10], pa.float32()),
        pa.array([decimal.Decimal("0.00"), decimal.Decimal("1.00"), decimal.Decimal("10.00")]),
        pa.array([0, 1, 10]).dictionary_encode(),
        pa.array(["0", "1.0", " 1e1"], pa.large_string()),
    ],
    ids=lambda labels: str(labels.type),
)
def test_types_of_labels(labels: pa.Array) -> None:
    np.testing.assert_array_equal(labels_of(table(labels)), [0, 1, 10])
    np.testing.assert_array_equal(labels_of(table([True, False])), [1, 0])


@pytest.mark.parametrize(
    "type_", [pa.binary(), pa.date32(), pa.timestamp("us"), pa.list_(pa.int8()), pa.struct([])]
)
def test_other_types_are_refused_by_name(type_: pa.DataType) -> None:
    with pytest.raises(DataError, match=r"label column 'y' has type .*not numeric"):
        scan(table([None, None], type_), label="y")


@pytest.mark.parametrize("form", ["csv", "parquet", "dictionary"])
def test_labels_spelt_out_in_text_are_read_in_every_format(form: str, tmp_path: Path) -> None:
    """As the same texts in a CSV file: separators, and blanks in their spellings."""
    texts = pa.array(["1,234.5", "NULL", " 7 ", "", "-", "n/a", "ref1", "$9"])
    y = texts.dictionary_encode() if form == "dictionary" else texts
    columns = pa.table({"x": ["1,000.5"] * 8, "y": y})
    path = stored(columns, "csv" if form == "csv" else "parquet", tmp_path)
    said = {"label_range": (0, 2000), "drop_missing_labels": True, "na": ["ref1"]}
    np.testing.assert_array_equal(labels_of(path, **said), [1234.5, 7, 9])
    with pytest.raises(DataError, match="label column 'y' holds text that is not a number"):
        labels_of(path, **said | {"na": None})


@pytest.mark.parametrize(
    ("feature", "label", "value"),
    [("2.5", "$1,234.50", 1234.5), ("2,5", "1.234,50 €", 1234.5), ("2.5", "(7)", -7.0),
     ("2,5", "1.234", 1234.0), ("2.5", "1,5", None)],
)  # fmt: skip
def test_labels_are_read_with_the_features_decimal_sign(
    feature: str, label: str, value: float | None, tmp_path: Path
) -> None:
    (tmp_path / "t.tsv").write_text(f"x\ty\n{feature}\t{label}\n" * 1 + f"{feature}\t{label}\n")
    source = scan(tmp_path / "t.tsv", label="y", label_range=(-1e4, 1e4))
    if value is None:
        with pytest.raises(DataError, match="text that is not a number"):
            list(source.labelled_batches())
    else:
        assert [labels.tolist() for _, labels in source.labelled_batches()] == [[value] * 2]


@pytest.mark.parametrize("answer", ["A", "U", "refused", "nil", "n.d.", "No answer", "a,b"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_answer_is_not_taken_for_missing(answer: str, form: str, tmp_path: Path) -> None:
    """To leave its row out would show who gave it; a stray delimiter is to be refused as well."""
    columns = pa.table({"x": [1, 2, 3, 4], "y": ["2", answer, " NA ", "4"]})
    path = stored(columns, form, tmp_path)
    said: Any = {"label_range": (0, 9), "drop_missing_labels": True}
    if form == "csv":
        path.write_text(path.read_text().replace('"', ""))
    with pytest.raises(DataError, match="holds text that is not a number"):
        labels_of(path, **said)
    source = scan(path, label="y", **said)
    assert sum(batch.num_rows for batch in source.feature_batches()) == 3
    if "," not in answer:
        np.testing.assert_array_equal(labels_of(path, **said, na=[answer]), [2, 4])


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (None, "missing values; pass `drop_missing_labels`"),
        (float("inf"), "infinities"),
        (SECRET, "outside the range 0 to 10; widen"),
        ("seventeen", "holds text that is not a number"),
        ("7,319,x", "a delimiter or quote too many in a line"),
    ],
)
@pytest.mark.parametrize("form", ["table", "parquet", "csv"])
def test_bad_labels_are_refused_without_a_word_about_them(
    bad: Any, words: str, form: str, tmp_path: Path
) -> None:
    labels = [5.0] * 613 + [bad] + [5.0] * 386
    typed = table([*map(str, labels)]) if isinstance(bad, str) else table(labels)
    data = stored(typed, form, tmp_path)
    with pytest.raises(DataError, match=words) as caught:
        labels_of(data, batch_rows=100)
    trace, message = "".join(traceback.format_exception(caught.value)), str(caught.value)
    assert message.endswith(UNNAMED)
    assert "\n" not in message
    for secret in ("7319", "7,319", "seventeen", "613", "614"):
        assert secret not in message
        assert secret not in trace.replace("line 61", "")


def test_refusal_comes_after_the_last_batch_so_its_place_is_not_told() -> None:
    source = scan(table([SECRET] + [5.0] * 99), label="y", label_range=(0, 10), batch_rows=10)
    batches = source.labelled_batches()
    seen = [next(batches)[1] for _ in range(10)]
    assert all((y >= 0).all() and (y <= 10).all() for y in seen), "range obeyed meanwhile"
    with pytest.raises(DataError):
        next(batches)


@pytest.mark.parametrize("missing", [None, float("nan")])
@pytest.mark.parametrize("form", ["table", "csv"])
def test_drop_missing_labels_drops_the_same_rows_everywhere(
    missing: float | None, form: str, tmp_path: Path
) -> None:
    data = stored(table([1.0, missing, 3.0, missing]), form, tmp_path)
    source = scan(data, label="y", label_range=(0, 10), drop_missing_labels=True, batch_rows=1)
    assert pa.Table.from_batches(source.feature_batches()).to_pydict() == {"x": [0, 2]}
    assert [y.tolist() for _, y in source.labelled_batches()] == [[1.0], [3.0]]


def test_labels_need_a_name_and_a_range_and_may_be_clipped() -> None:
    with pytest.raises(InputError, match="label"):
        next(scan(table([1])).labelled_batches())
    with pytest.raises(InputError, match="label_range"):
        next(scan(table([1]), label="y").labelled_batches())
    np.testing.assert_array_equal(labels_of(table([-SECRET, 3.0, SECRET]), clip=True), [0, 3, 10])


def test_what_is_printed_holds_no_label_and_features_are_read_without_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = scan(table([SECRET]), label="y", label_range=(0, 10))
    assert "7319" not in repr(source) + str(source) + str(told(source))
    assert source == scan(table([1.0]), label="y", label_range=(0, 10))
    read: list[list[str]] = []
    batches = type(source.reader).batches
    monkeypatch.setattr(
        type(source.reader),
        "batches",
        lambda self, columns, rows: read.append(list(columns)) or batches(self, columns, rows),
    )
    list(source.feature_batches())
    assert read == [["x"]]


# Excel sheets and columns of Python objects have no types of their own. One that followed from the
# values would let a single label stop `plan`.

ROWS = 60


def excel(columns: dict[str, list[Any]], place: Path) -> Path:
    book = extra("openpyxl").Workbook()
    book.active.append(list(columns))
    for row in zip(*columns.values(), strict=True):
        book.active.append(list(row))
    path = place / f"{len(list(place.iterdir()))}.xlsx"
    book.save(path)
    return path


def pandas(columns: dict[str, list[Any]], _: Path) -> pd.DataFrame:
    return pd.DataFrame({**columns, "y": pd.Series(columns["y"], dtype=object)})


def categories(columns: dict[str, list[Any]], place: Path) -> pd.DataFrame:
    return pandas(columns, place).astype({"y": "category"})


def polars(columns: dict[str, list[Any]], _: Path) -> pl.DataFrame:
    return pl.DataFrame({**columns, "y": pl.Series(columns["y"], dtype=pl.Object)})


def dictionary(columns: dict[str, list[Any]], _: Path) -> dict[str, list[Any]]:
    return columns


FORMS: list[Callable[[dict[str, list[Any]], Path], Any]] = [
    excel, pandas, categories, polars, dictionary,
]  # fmt: skip


def columns(place: int | None = None, value: Any = None) -> dict[str, list[Any]]:
    """A table of numbers, one of whose labels is another value."""
    rng = np.random.default_rng(0)
    labels: list[Any] = [int(k) if k % 3 else k + 0.5 for k in range(ROWS)]
    if place is not None:
        labels[place] = value
    return {"x": rng.normal(size=ROWS).tolist(), "z": ["a", "b", "c"] * (ROWS // 3), "y": labels}


def planned(data: Any) -> Any:
    return plan(data, 4.0, 0.0, label="y", label_range=(0, 60), mechanism="noisy-rows")


WRONG = {
    "a date": datetime.datetime(2031, 5, 17),
    "a time": datetime.time(17, 31),
    "a text": "seventeen",
    "two lines": "1\n17",
    "2**63": 2**63,
    "-2**63 - 1": -(2**63) - 1,
    "10**400": 10**400,
    "bytes": b"17",
    "a list": [17],
    "infinite": float("inf"),
    "missing": None,
}
NO_CELL = ("10**400", "bytes", "a list", "infinite")


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_label_stops_the_release_and_not_the_plan(
    form: Callable[..., Any], wrong: str, tmp_path: Path
) -> None:
    if (form is excel and wrong in NO_CELL) or (form is categories and wrong == "a list"):
        pytest.skip("no cell, or no category, holds this")
    expected = json.dumps(planned(form(columns(), tmp_path)).to_json())
    for place in (0, ROWS - 1):
        data = form(columns(place, WRONG[wrong]), tmp_path)
        found = planned(data)
        assert json.dumps(found.to_json()) == expected
        with pytest.raises(DataError, match="label column 'y'") as refusal:
            found.release(data, label="y")
        assert "17" not in str(refusal.value)
        assert "seventeen" not in str(refusal.value)
        if wrong in (
            "a date",
            "a time",
            "a text",
            "two lines",
            "bytes",
            "a list",
        ):  # and never missing
            assert "holds text that is not a number" in str(refusal.value)


RIGHT: dict[Any, float] = {
    "12.5": 12.5,
    True: 1.0,
    Decimal("12.50"): 12.5,
    np.float32(0.1): float(np.float32(0.1)),
    np.int16(7): 7.0,
    0.1 + 0.2: 0.1 + 0.2,
    10**20: 1e20,
    -0.00025: -0.00025,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("value", RIGHT, ids=repr)
def test_labels_of_any_type_are_read_as_the_numbers_they_are(
    form: Callable[..., Any], value: Any, tmp_path: Path
) -> None:
    """Also beside decimal commas in the features, which typed cells do not have."""
    if form is excel and not isinstance(value, str | bool | Decimal):
        pytest.skip("the writer of Excel files rounds or does not know it")
    data = columns(0, value)
    if not isinstance(value, str):
        data["x"] = [f"{each:.3f}".replace(".", ",") for each in data["x"]]
    labels = labels_of(form(data, tmp_path), label_range=(-1, 1e21))
    assert np.array_equal(labels, [RIGHT[value], *(float(v) for v in columns()["y"][1:])])


@pytest.mark.parametrize("form", FORMS)
def test_codes_for_missing_are_found_among_numbers(
    form: Callable[..., Any], tmp_path: Path
) -> None:
    said: Any = {"label_range": (0, 60), "na": ["y=-99.9"], "drop_missing_labels": True}
    assert len(labels_of(form(columns(5, -99.9), tmp_path), **said)) == ROWS - 1


def test_a_released_workbook_is_verified(tmp_path: Path) -> None:
    place = tmp_path / "books"
    place.mkdir()
    data = excel(columns(), place)
    planned(data).release_to(tmp_path / "r", data, label="y")
    assert verify(tmp_path / "r", data).problems == ()
