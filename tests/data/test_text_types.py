"""Text columns are numbers, dates, truth values or categories, by the rules of docs/reading.md."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, settings, strategies as st

from labeldp import DataError, FeatureMap, scan
from labeldp.data.text_types import TextCounts, TextOptions, infer_parsers, parse_numbers
from labeldp.features.fit import fit_features
from tests.tables import csv_of


def write(path: Path, header: str, rows: list[str], encoding: str = "utf-8") -> Path:
    path.write_bytes(("\n".join([header, *rows]) + "\n").encode(encoding))
    return path


def column(path: Path, name: str = "x", **options: Any) -> tuple[str, list[Any]]:
    """The type and the values of a column."""
    values = pa.Table.from_batches(scan(path, **options).feature_batches())[name]
    return str(values.type), values.to_pylist()


def in_csv(texts: list[str], place: Path) -> Path:
    return write(place / "t.csv", "k\tx", [f"a\t{text}" for text in texts])


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1,234.56", "7", "12,345,678.9"], [1234.56, 7, 12345678.9]),
        (["1.234,56", "7", "3,5"], [1234.56, 7, 3.5]),
        (["1 234,5", "1\u00a0234,5", "2"], [1234.5, 1234.5, 2]),
        (["1'234.5", "12’345.25"], [1234.5, 12345.25]),
        (["$1,200", "-$3", "$ -4", "$5.25", "6"], [1200, -3, -4, 5.25, 6]),
        (["85 €", "1.200 €", "-3,5 €"], [85, 1200, -3.5]),
        (["85\u00a0€", "1\u202f200,5\u00a0€", "-3,5\u00a0€"], [85, 1200.5, -3.5]),
        (["12\u00a0%", "7\u202f%", "0,5\u00a0%"], [12, 7, 0.5]),
        (["70\u00a0kg", "80,5\u00a0kg"], [70, 80.5]),
        (["12 %", "7%", "0,5 %"], [12, 7, 0.5]),
        (["(1,200)", "(3.50)", "4"], [-1200, -3.5, 4]),
        (["1200-", "−7", "+8"], [-1200, -7, 8]),
        (["1,5E+03", "2,5e-1"], [1500, 0.25]),
        (["70 kg", "80.5 kg", "1,000kg"], [70, 80.5, 1000]),
        (["12 m²", "13 m²"], [12, 13]),
        (["12 °C", "-13,5 °C"], [12, -13.5]),
        (["1.5 mg/dL", "2 mg/dL"], [1.5, 2]),
        (["R$ 1.000,50", "R$ 2,25"], [1000.5, 2.25]),
        (["US$5", "US$1,000"], [5, 1000]),
        (["7 zł", "8 zł"], [7, 8]),
        (["5 days", "1 day"], [5, 1]),
        (["EUR 5", "7 EUR", "8"], [5, 7, 8]),
        (["12*", "14", "15 [a]", "16.5†"], [12, 14, 15, 16.5]),
        (["-", "3.5", "?", "4", ".."], [None, 3.5, None, 4, None]),
        (["n/a", "3,000"], [None, 3000]),
    ],
)
def test_numbers(texts: list[str], values: list[float | None], tmp_path: Path) -> None:
    kind, read = column(in_csv(texts, tmp_path))
    assert kind == "double"
    assert read == values


@pytest.mark.parametrize(
    "texts",
    [
        ["$5", "€5"],
        ["5 %", "5"],
        ["70 kg", "500 g"],
        ["70 kg", "80"],
        ["5m", "6m"],
        ["m5", "m6"],
        ["12AB", "13CD"],
        ["-1e-5x", "2"],
        ["1,23,4", "x1"],
        ["10.20.30.100", "10.20.30.101"],
        ["007", "12"],
        ["(5", "6)"],
        ["(-5)", "-6-"],
        ["25-34", "35-44"],
        ["Stadt 12", "Stadt 13"],
        ["V57", "250.01"],
        ["1234567890123456789012", "12"],
        ["a", "b"],
    ],
)
def test_what_is_no_number_or_means_two_things_stays_text(texts: list[str], tmp_path: Path) -> None:
    assert column(in_csv(texts, tmp_path)) == ("string", texts)


@pytest.mark.parametrize(
    ("numbers", "strays", "kind"),
    [
        (80, ["n.a."] * 20, "int64"),
        (79, ["n.a."] * 21, "string"),
        (80, [f"word {chr(97 + k)}" for k in range(20)], "int64"),
        (84, [f"word {chr(97 + k)}" for k in range(21)], "string"),
        (99, ["3O"], "int64"),
        (98, ["3O", "3O"], "string"),
        (95, ["none", "none", "none", "none", "1x"], "string"),
        (50, ["-"] * 50, "int64"),
    ],
)
def test_strays_are_missing_if_they_are_few(
    numbers: int, strays: list[str], kind: str, tmp_path: Path
) -> None:
    texts = [*map(str, range(1, numbers + 1)), *strays]
    found, values = column(in_csv(texts, tmp_path))
    assert found == kind
    if kind == "int64":
        assert values == [*range(1, numbers + 1), *[None] * len(strays)]
        days = [f"2020-01-{k % 28 + 1:02d}" for k in range(numbers)]
        assert column(in_csv([*days, *strays], tmp_path))[0] == "timestamp[us]"


def test_strays_are_said_and_are_missing_in_further_rows_too(tmp_path: Path) -> None:
    texts = [*map(str, range(95)), *["gone", "lost", "gone"]]
    source = scan(in_csv(texts, tmp_path))
    assert source.notes[1:] == (
        "x: texts such as 'gone', 'lost' count as missing (3 rows); `categorical` to change",
    )
    features = fit_features(source)
    again = FeatureMap.from_json(features.to_json())
    assert again == features
    (batch,) = again.batches(pa.table({"x": ["fifty", "2", "gone"]}))
    assert batch.column(0).to_pylist() == [None, 2, None]


def test_a_column_that_is_called_numeric(tmp_path: Path) -> None:
    texts = ["1.5", "2", "x1", "y2", "3"]
    said: Any = {"numeric": ["x"]}
    assert column(in_csv(texts, tmp_path), **said)[1] == [1.5, 2, None, None, 3]
    assert column(in_csv(["007", "08"], tmp_path), **said)[1] == [7, 8]
    with pytest.raises(DataError, match="'x' should be numeric, but most values are texts"):
        scan(in_csv(["a", "1", "b"], tmp_path), **said)


TEXTS = st.sampled_from(
    ["1", "2.5", "2,5", "1.234", "1,234", "$5", "€6", "7 kg", "8 %", "007", "true", "-", "word",
     "other", "x1", "2020-01-02", "01/02/2020", "13/02/2020", "02/13/2020", "inf", "5 miles"]
)  # fmt: skip


@settings(max_examples=25)
@given(st.lists(st.lists(TEXTS, max_size=20), min_size=1, max_size=4))
def test_counts_of_parts_add_up_to_those_of_the_whole(parts: list[list[str]]) -> None:
    whole, batches = TextCounts(), TextCounts()
    whole.add(pa.array([text for part in parts for text in part], pa.string()), (), "%d/%m/%Y")
    for part in reversed(parts):
        batches.add(pa.array(part, pa.string()).dictionary_encode(), (), "%d/%m/%Y")
    assert batches == whole


@settings(max_examples=40)
@given(st.lists(TEXTS, min_size=1, max_size=30))
def test_as_many_texts_are_read_as_were_counted(texts: list[str]) -> None:
    counts, array = TextCounts(), pa.array(texts, pa.string())
    counts.add(array)
    parsers, _, _ = infer_parsers({"x": counts}, TextOptions())
    parser = parsers["x"]
    missing = 0 if parser.type is None else counts.kinds["empty"] + parser.unparsed
    assert parser.parse(array).null_count == missing


_NUMBER_LIKE = st.text(alphabet="0123456789.,' -+()%$€kgmü²*a", min_size=1, max_size=12)


@settings(max_examples=300)
@given(st.lists(_NUMBER_LIKE, min_size=1, max_size=40), st.sampled_from(".,"))
def test_no_text_that_resembles_a_number_stops_the_reading(texts: list[str], decimal: str) -> None:
    array = pa.array([*map(str.strip, texts), "4. min.", "4.5 k.", "4..", "$4."], pa.string())
    values, units = parse_numbers(array, decimal)
    assert len(values) == len(units) == len(array)
    if decimal == ".":
        assert values.to_pylist()[-4:-2] == [4.0, 4.5]


def test_many_units_are_none() -> None:
    counts = TextCounts()
    units = [f"{a}{b}{c}" for a in "abcdefghijk" for b in "abcdefghijk" for c in "abcdefghijk"]
    counts.add(pa.array([f"{k} {unit}" for k, unit in enumerate(units)]))
    assert len(counts.numbers) <= 1000
    assert infer_parsers({"x": counts}, TextOptions())[0]["x"].type is None


def test_most_cells_of_a_file_tell_the_decimal_sign(tmp_path: Path) -> None:
    rows = [f"{k}.500;{k},5" for k in range(1, 9)]
    path = write(tmp_path / "t.csv", "x;z", rows)
    assert column(path)[1][:2] == [1500.0, 2500.0]
    assert "x: texts read as numbers, decimal sign ','" in scan(path).notes
    alone = write(tmp_path / "u.csv", "x;z", [f"{k}.500;{k}.5" for k in range(1, 9)])
    assert column(alone)[1][:2] == [1.5, 2.5]
    assert column(path, decimal=".", categorical=["z"])[1][:2] == [1.5, 2.5]


@given(st.floats(-1e9, 1e9).map(lambda x: round(x, 2)), st.sampled_from(".,"))
def test_a_grouped_number_is_read_back(value: float, decimal: str) -> None:
    """The obvious writer and the reader are each other's inverse."""
    text = f"{value:,.2f}"
    if decimal == ",":
        text = text.translate(str.maketrans(",.", ".,"))
    values, units = parse_numbers(pa.array([text, None, "x"]), decimal)
    assert values.to_pylist() == [value, None, None]
    assert units.to_pylist() == ["", None, None]


START = datetime.datetime(2019, 1, 1)
MOMENTS = [START + datetime.timedelta(days=3 * k, minutes=7 * k * k % 1440) for k in range(300)]


@pytest.mark.parametrize(
    ("form", "unit"),
    [
        ("%Y-%m-%d", "D"), ("%Y/%m/%d", "D"), ("%d.%m.%Y", "D"), ("%d.%m.%y", "D"),
        ("%d/%m/%Y", "D"), ("%m/%d/%Y", "D"), ("%d-%m-%y", "D"), ("%m/%d/%y", "D"),
        ("%d %b %Y", "D"), ("%d %B %Y", "D"), ("%d-%b-%y", "D"), ("%d%b%Y", "D"),
        ("%b %d, %Y", "D"), ("%B %d, %Y", "D"),
        ("%Y-%m", "M"), ("%m/%Y", "M"), ("%b %Y", "M"), ("%b-%y", "M"),
        ("%Y-%m-%d %H:%M", "m"), ("%Y-%m-%dT%H:%M:%SZ", "m"), ("%d.%m.%Y %H:%M", "m"),
        ("%m/%d/%Y %I:%M %p", "m"), ("%d/%m/%Y %H:%M:%S", "m"), ("%Y-%m-%d %H:%M:00.000", "m"),
        ("%Y-%m-%d %H:%M:00+00:00", "m"), ("%d.%m.%Y %H:%M %p", "m"),
    ],
)  # fmt: skip
def test_dates(form: str, unit: str, tmp_path: Path) -> None:
    texts = [when.strftime(form) for when in MOMENTS]
    kind, values = column(in_csv(texts, tmp_path))
    assert kind == "timestamp[us]"
    wanted = np.array(MOMENTS, f"datetime64[{unit}]").astype("datetime64[us]")
    np.testing.assert_array_equal(np.array(values, "datetime64[us]"), wanted)


def test_zones_shift(tmp_path: Path) -> None:
    texts = ["2021-02-01T02:00:00+02:00", "2021-01-31 19:00-0500", "2021-02-01 00:00Z"]
    assert column(in_csv(texts, tmp_path))[1] == [datetime.datetime(2021, 2, 1)] * 3


@pytest.mark.parametrize("form", ["{}-{}-{}", "{2}.{1}.{0}", "{2}/{1}/{0}"])
def test_days_that_no_calendar_has_are_missing(form: str, tmp_path: Path) -> None:
    """In a text file too, whose plain dates Arrow reads."""
    days = [(2019, 1, 31), (2020, 2, 29), (2000, 2, 29)]
    bad = [(2019, 2, 30), (2019, 2, 29), (1900, 2, 29), (2020, 6, 31)]
    texts = [form.format(f"{y}", f"{m:02d}", f"{d:02d}") for y, m, d in [*days * 20, *bad]]
    _, values = column(in_csv(texts, tmp_path))
    assert values == [*(datetime.datetime(*day) for day in days * 20), *[None] * len(bad)]


@pytest.mark.parametrize("words", [["Marathon 2019", "Junction 2018"], ["Janet-05", "Mark-12"]])
def test_words_that_begin_like_months(words: list[str], tmp_path: Path) -> None:
    assert column(in_csv(words * 30, tmp_path))[0] == "string"


def test_a_day_that_may_be_a_month_is_said(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "x", ["01/02/2021", "03/04/2021"])
    assert any("%m/%d/%Y would do as well" in note for note in scan(path).notes)
    assert column(path, date_format="%m/%d/%Y")[1][0] == datetime.datetime(2021, 1, 2)


def test_digits_are_dates_if_they_are_said_to_be(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "x,z", ["20210201,5", "20201231,6"])
    assert column(path)[0] == "int64"
    assert column(path, date_format="%Y%m%d")[1][0] == datetime.datetime(2021, 2, 1)
    assert column(path, "z", date_format="%Y%m%d")[0] == "int64"
    table = pa.table({"x": [20210201, 20201231], "z": ["20210201", "20201231"]})
    (batch,) = scan(table, date_format="%Y%m%d").feature_batches()
    assert [str(each) for each in batch.schema.types] == ["int64", "timestamp[us]"]


def test_words_of_ones_own_for_missing(tmp_path: Path) -> None:
    path = write(tmp_path / "t.csv", "x,k", ["1,a", "gone,gone", "3,NA"])
    assert column(path, na=["gone"])[1] == [1, None, 3]
    assert column(path, "k", na=["gone"])[1] == ["a", None, None]
    assert column(path, "k", na=[], categorical=["x"])[1] == ["a", "gone", "NA"]


@pytest.mark.parametrize("form", ["csv", "parquet", "pandas"])
def test_what_means_missing_in_one_column(form: str, tmp_path: Path) -> None:
    """99 is no answer to a question, and an age."""
    columns = pa.table({
        "age": [99, 30, 41, 99],
        "q": [1, 99, 2, 98],
        "share": [0.5, -1.0, 0.25, 99.0],
        "town": ["A", "99", "B", "99"],
        "y": [1.0, 999.0, 2.0, 3.0],
    })  # fmt: skip
    data = columns.to_pandas() if form == "pandas" else tmp_path / f"t.{form}"
    if form == "csv":
        pyarrow.csv.write_csv(columns, data)
    elif form == "parquet":
        pyarrow.parquet.write_table(columns, data)
    na = ["q=99", "q=98", "share=-1", "town=99", "y=999"]
    source = scan(data, label="y", label_range=(0, 9), na=na, drop_missing_labels=True)
    batches = [batch for batch, _ in source.labelled_batches()]
    assert pa.Table.from_batches(batches).to_pydict() == {
        "age": [99, 41, 99],
        "q": [1, 2, None],
        "share": [0.5, 0.25, 99.0],
        "town": ["A", "B", None],
    }
    with pytest.raises(DataError, match="na: there is no column 'z'"):
        scan(data, label="y", na=["z=99"])


@pytest.mark.parametrize("word", [" ", " NA ", "NA ", '" "'])
@pytest.mark.parametrize(
    ("texts", "kind"),
    [(["1", "2"], "int64"), (["1.5", "2"], "double"), (["true", "false"], "bool"), ([], "double")],
)
def test_words_for_missing_may_have_blanks_beside_them(
    texts: list[str], kind: str, word: str, tmp_path: Path
) -> None:
    plain = column(in_csv([*texts, "NA"], tmp_path))
    assert plain[0] == kind
    assert (
        column(write(tmp_path / "blanks.csv", "x,z", [f"{t},1" for t in (*texts, word)])) == plain
    )


@pytest.mark.parametrize(
    ("texts", "code", "values"),
    [
        (["true", "false", "9"], "9", [True, False, None]),
        (["1", "9.5", "2"], "9.5", [1, None, 2]),
        (["1.5", "99.0", "2"], "99", [1.5, None, 2.0]),
        (["1,5", "99,0", "$2"], "99", [1.5, None, 2.0]),
        (["a", " 99", "b"], "99", ["a", None, "b"]),
    ],
)
def test_codes_of_a_column_of_any_kind(
    texts: list[str], code: str, values: list[Any], tmp_path: Path
) -> None:
    for na in (f"x={code}", code):
        assert column(in_csv(texts, tmp_path), na=[na])[1] == values


def test_further_rows_are_read_as_the_fitted_ones(tmp_path: Path) -> None:
    """One row of them shows neither the decimal sign nor the order of day and month."""
    rows = [
        f"{k % 9 + 1}.{k:03d},5;{k % 28 + 1:02d}/{k % 12 + 1:02d}/2020;2020-01-{k % 28 + 1:02d}"
        for k in range(100, 300)
    ]
    features = fit_features(scan(write(tmp_path / "t.csv", "x;day;iso", rows)))
    assert FeatureMap.from_json(features.to_json()) == features
    assert features.column_formats == {
        "day": {"decimal": ".", "date_format": "%d/%m/%Y"},
        "x": {"decimal": ",", "date_format": None},
    }
    frame = pa.table({"x": ["1.234"], "day": ["01/02/2020"], "iso": ["2020-01-03"]})
    days = {"day": [datetime.datetime(2020, 2, 1)], "iso": [datetime.datetime(2020, 1, 3)]}
    whole = pa.table({"x": [1234.0], **days})
    np.testing.assert_array_equal(features.design(frame), features.design(whole))


def test_further_rows_of_another_unit_are_missing() -> None:
    features = fit_features(scan(csv_of({"x": [f"{k} kg" for k in range(300)]})))
    assert features.column_formats == {"x": {"unit": "kg"}}
    (batch,) = features.batches(csv_of({"x": ["100 lb", "100 lb", "120 kg", "130"]}))
    assert batch.column(0).to_pylist() == [None, None, 120, None]


@pytest.mark.parametrize("na", [["gone"], [], None])
def test_words_for_missing_are_known_to_further_rows(na: list[str] | None, tmp_path: Path) -> None:
    odd = "gone" if na == ["gone"] else "2.5"
    rows = [f"{(odd, '3.5', '4.5')[k % 3]},{('a', 'NA')[k % 2]}" for k in range(99)]
    features = fit_features(scan(write(tmp_path / "t.csv", "x,k", rows), na=na))
    assert FeatureMap.from_json(features.to_json()) == features
    assert fit_features(scan(tmp_path / "t.csv", **features.reading)) == features
    design = features.design(pa.table({"x": ["3.5"], "k": ["NA"]}))
    shown = "k=NA" if na == [] else "k=(missing)"
    assert design[0, features.names.index(shown)] == 1


OLD = {
    "share": {"dress": "share"},
    "measure": {"dress": "measure", "unit": "kg"},
    "letters for signs": {"dress": "unit", "negative": "S"},
    "a format": {"decimal": ".", "date_format": "%d. %m. %Q"},
}


@pytest.mark.parametrize("told", OLD.values(), ids=OLD)
def test_readings_of_earlier_versions_are_loaded_and_refused_where_rows_are_read(
    told: dict[str, str],
) -> None:
    features = fit_features(scan({"x": [k / 3 for k in range(50)]}))
    old = FeatureMap.from_json(features.to_json() | {"spelt": {"x": told}})
    with pytest.raises(DataError, match="'x' was fitted by an earlier version that read"):
        old.design(csv_of({"x": ["1/2"]}))
    several = {"spelt": {"x": {"decimal": ".", "date_format": "%F|%d.%m.%Y %H:%M"}}}
    old = FeatureMap.from_json(features.to_json() | several)
    (batch,) = old.batches(csv_of({"x": ["2020-01-02", "03.02.2020 10:30"]}))
    assert batch.column(0).to_pylist() == [
        datetime.datetime(2020, 1, 2),
        datetime.datetime(2020, 2, 3, 10, 30),
    ]


TYPED = {
    "arrow": pa.table,
    "pandas": pd.DataFrame,
    "polars": pl.DataFrame,
    "categories": lambda data: pd.DataFrame(data).astype({"x": "category"}),
}


@pytest.mark.parametrize("form", [*TYPED, "parquet", "feather"])
@pytest.mark.parametrize(
    "texts",
    [["250.83", "V57", "428", "E909"], ["250.83", "428", "401.9"], ["1", "2", "30"],
     ["2021-03-05", "2021-03-06"], ["1.5 kg", "2 kg"]],
)  # fmt: skip
def test_text_of_a_typed_table_is_a_category(form: str, texts: list[str], tmp_path: Path) -> None:
    """Whoever wrote it chose its type: ICD codes are no numbers, and no reason to refuse."""
    columns = {"x": texts * 50, "z": [k % 7 / 2 for k in range(50 * len(texts))]}
    data: object = tmp_path / f"t.{form}"
    if form == "parquet":
        pd.DataFrame(columns).to_parquet(tmp_path / "t.parquet")
    elif form == "feather":
        pd.DataFrame(columns).to_feather(tmp_path / "t.feather")
    else:
        data = TYPED[form](columns)
    source = scan(data)
    assert source.columns[0].kind == "categorical"
    (fitted,) = fit_features(source, min_count=1).categorical
    assert {*fitted.levels} == {*texts}
    if all(text[0].isdigit() and "-" not in text for text in texts):
        assert scan(data, numeric=["x"]).columns[0].kind == "numeric"


def test_texts_and_numbers_in_one_column_of_pandas_are_refused_with_the_remedy() -> None:
    frame = pd.DataFrame({"code": [*range(190), *["unknown so far"] * 10]})
    with pytest.raises(DataError, match="column 'code' mixes types") as refusal:
        scan(frame)
    exec(str(refusal.value).partition("in pandas: ")[2], {"table": frame})
    assert scan(frame).columns[0].kind == "categorical"
