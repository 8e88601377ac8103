"""Messy text: what people write for numbers, dates and blanks becomes values, or is refused."""

from __future__ import annotations

import datetime
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
import pyarrow.parquet
import pytest
from hypothesis import given, strategies as st

from labeldp.data.columns import to_float
from labeldp.data.numerals import numbers_among
from labeldp.data.source import scan
from labeldp.data.spelling import Spelling
from labeldp.errors import DataError, InputError
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features
from tests.tables import csv_of, told

DAY = datetime.date(2021, 2, 1)


def write(path, header, rows, encoding="utf-8", end="\n"):
    path.write_bytes((end.join([header, *rows]) + end).encode(encoding))
    return path


def column(path, name="x", **options):
    """The type and the values of a column."""
    source = scan(path, **options)
    found = pa.Table.from_batches(source.feature_batches())[name]
    return str(found.type), found.to_pylist()


@pytest.mark.parametrize(
    ("texts", "values"),
    [
        (["1,234.56", "7", "12,345,678.9"], [1234.56, 7, 12345678.9]),
        (["1.234,56", "7", "3,5"], [1234.56, 7, 3.5]),
        (["1 234,5", "1\u00a0234,5", "2"], [1234.5, 1234.5, 2]),
        (["1'234.5", "12’345.25"], [1234.5, 12345.25]),
        (["$1,200", "-$3", "$ -4", "$5.25"], [1200, -3, -4, 5.25]),
        (["12 %", "7%", "0,5 %"], [12, 7, 0.5]),
        (["(1,200)", "(3.50)", "4"], [-1200, -3.5, 4]),
        (["1200-", "−7", "+8"], [-1200, -7, 8]),
        (["(3.2)%", "(4.5%)", "6%"], [-3.2, -4.5, 6]),
        (["EUR 5", "7 EUR", "8"], [5, 7, 8]),
        (["1,5E+03", "2,5e-1"], [1500, 0.25]),
        (["-", "3.5", "?", " "], [None, 3.5, None, None]),
        (["n/a", "3,000"], [None, 3000]),
        (["1,234.56", "1.234,56", "2.5", "1,234"], [1234.56, 1234.56, 2.5, 1234]),
        (["1.234,56", "-2,5", "1.234", "7.25"], [1234.56, -2.5, 1234, 7.25]),
        (["₹2,92,149", "₹17,867", "₹1,00,00,776.50"], [292149, 17867, 10000776.5]),
        (["'12.5", "'-3"], [12.5, -3]),
        (['"=""12.5"""', '"=""3"""'], [12.5, 3]),
        (["$5", "USD 6", "US$ 1,000", "7"], [5, 6, 1000, 7]),
        (["１２", "３.５", "▲1,200", "△3"], [12, 3.5, -1200, -3]),
        (["45％", "７ %"], [45, 7]),
        (["12*", "13.5", "14 (est.)", "15", "16"], [12, 13.5, 14, 15, 16]),
    ],
)
def test_numbers_as_people_write_them(texts, values, tmp_path):
    path = write(tmp_path / "t.csv", "k\tx", [f"a\t{text}" for text in texts])
    kind, found = column(path)
    assert kind == "double"
    assert found == values


@pytest.mark.parametrize(
    "texts",
    [
        ["$5", "€5"],  # two units
        ["5 %", "5"],  # a share, or not
        ["1,23,4", "x1"],
        ["12,34.5", "1.2.3"],
        ["'01234", "'12345"],  # codes that a spreadsheet was to keep
        ['"=""01234"""', '"=""12345"""'],
    ],
)
def test_what_means_two_things_stays_text(texts, tmp_path):
    rows = [f"a\t{text}" for text in texts]
    assert column(write(tmp_path / "t.csv", "k\tx", rows))[0] == "string"


def test_one_column_tells_how_another_is_read(tmp_path):
    rows = [f"{k}.500;{k},5" for k in range(1, 9)]
    path = write(tmp_path / "t.csv", "x;z", rows)
    assert column(path)[1][:2] == [1500.0, 2500.0]
    assert any("both signs would do" in note for note in scan(path).notes)
    alone = write(tmp_path / "u.csv", "x;z", [f"{k}.500;{k}.5" for k in range(1, 9)])
    assert column(alone)[1][:2] == [1.5, 2.5]
    assert column(path, decimal=".", categorical=["z"])[1][:2] == [1.5, 2.5]


@given(st.floats(-1e9, 1e9).map(lambda x: round(x, 2)), st.sampled_from(".,"))
def test_a_grouped_number_is_read_back(value, decimal):
    """The obvious writer and the reader are each other's inverse."""
    text = f"{value:,.2f}"
    if decimal == ",":
        text = text.translate(str.maketrans(",.", ".,"))
    texts = pa.array([text])
    assert numbers_among(texts, decimal, None)[0].as_py()
    found = Spelling(pa.float64(), "numbers", decimal=decimal).read(texts, "x")
    assert found.to_pylist() == [value]


@pytest.mark.parametrize(
    ("texts", "days"),
    [
        (["31/12/2020", "01/02/2021"], [-32, 0]),
        (["12/31/2020", "2/1/2021"], [-32, 0]),
        (["31.12.2020", "1.2.2021"], [-32, 0]),
        (["31.12.20", "01.02.21"], [-32, 0]),
        (["2020/12/31", "2021/2/1"], [-32, 0]),
        (["31 Dec 2020", "1 Feb 2021"], [-32, 0]),
        (["Dec 31, 2020", "Feb 1, 2021"], [-32, 0]),
        (["31/12/2020 06:00", "01/02/2021 12:00"], [-31.75, 0.5]),
        (["2020-12-31T06:00:00Z", "2021-02-01T02:00:00+02:00"], [-31.75, 0]),
        (["-", "31/12/2020"], [None, -32]),
    ],
)
def test_dates_count_days(texts, days, tmp_path):
    path = write(tmp_path / "t.csv", "k\tx", [f"{n}\t{text}" for n, text in enumerate(texts)])
    kind, found = column(path)
    assert kind.startswith("timestamp")
    start = datetime.datetime(2021, 2, 1)
    since = [
        None if time is None else (time.replace(tzinfo=None) - start) / datetime.timedelta(1)
        for time in found
    ]
    assert since == days


def test_a_day_that_may_be_a_month_is_said(tmp_path):
    path = write(tmp_path / "t.csv", "x", ["01/02/2021", "03/04/2021"])
    assert any("%m/%d/%Y would do as well" in note for note in scan(path).notes)
    assert column(path, date_format="%m/%d/%Y")[1][0] == datetime.datetime(2021, 1, 2)


def test_a_day_that_no_calendar_has_is_missing(tmp_path):
    path = write(tmp_path / "t.csv", "x", ["31/12/2020", "31/02/2021"])
    assert column(path)[1] == [datetime.datetime(2020, 12, 31), None]


def test_digits_are_dates_if_they_are_said_to_be(tmp_path):
    path = write(tmp_path / "t.csv", "x,z", ["20210201,5", "20201231,6"])
    assert column(path)[0] == "int64"
    assert column(path, date_format="%Y%m%d")[1][0] == datetime.datetime(2021, 2, 1)
    assert column(path, "z", date_format="%Y%m%d")[0] == "int64"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp1252", "utf-16", "utf-16-le"])
@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_encoding_delimiter_and_line_ends_are_found(encoding, delimiter, end, tmp_path):
    rows = [delimiter.join(row) for row in (("Köln", "1"), ("Málaga", "2"))]
    path = write(tmp_path / "t.csv", delimiter.join(("größe", "n")), rows, encoding, end)
    assert scan(path).names == ("größe", "n")
    assert column(path, "größe")[1] == ["Köln", "Málaga"]
    assert column(path, "n")[1] == [1, 2]


def test_a_header_does_not_tell_the_encoding_of_what_follows(tmp_path):
    """Features far down do; labels never."""
    rows = ["a,1"] * 200_000 + ["Köln,2"]
    path = write(tmp_path / "t.csv", "town,y", rows, "latin-1")
    assert column(path, "town")[1][-1] == "Köln"
    assert scan(path).notes == ("the text is read as cp1252; `encoding` to change",)
    path = write(tmp_path / "u.csv", "town,y", ["a,1", "b,2 ö"], "latin-1")
    assert scan(path, label="y").notes == ()


def test_blanks_of_ones_own(tmp_path):
    path = write(tmp_path / "t.csv", "x,k", ["1,a", "gone,gone", "3,NA"])
    assert column(path, na=["gone"])[1] == [1, None, 3]
    assert column(path, "k", na=["gone"])[1] == ["a", None, None]
    assert column(path, "k", na=[], categorical=["x"])[1] == ["a", "gone", "NA"]


@pytest.mark.parametrize("label", ["1234.5", "1,234.50", "$1,234.5", "x", "", "1.234,5"])
def test_labels_sway_nothing_that_is_public(label, tmp_path):
    known = []
    for value in ("3", label):
        rows = [f'{k}.5,"{value}"' for k in range(5)]
        source = scan(write(tmp_path / "t.csv", "x,y", rows), label="y", label_range=(0, 1e4))
        known.append((told(source), source.notes, source.wording.decimal))
    assert known[0] == known[1]


@pytest.mark.parametrize(
    ("feature", "label", "value"),
    [("2.5", "$1,234.50", 1234.5), ("2,5", "1.234,50 €", 1234.5), ("2.5", "(7)", -7.0)],
)
def test_labels_are_read_with_the_features_decimal_sign(feature, label, value, tmp_path):
    path = write(tmp_path / "t.csv", "x\ty", [f"{feature}\t{label}"] * 3)
    source = scan(path, label="y", label_range=(-1e4, 1e4))
    assert [labels.tolist() for _, labels in source.labelled_batches()] == [[value] * 3]


def test_labels_of_another_decimal_sign_are_refused(tmp_path):
    path = write(tmp_path / "t.csv", "x\ty", ["2.5\t1,5"] * 3)
    source = scan(path, label="y", label_range=(0, 10))
    with pytest.raises(DataError, match="text that is not a number"):
        list(source.labelled_batches())


def test_further_rows_are_read_as_the_fitted_ones(tmp_path):
    """One row of them shows neither the decimal sign nor the order of day and month."""
    rows = [
        f"{k % 9 + 1}.{k:03d},5;{k % 28 + 1:02d}/{k % 12 + 1:02d}/2020" for k in range(100, 300)
    ]
    features = fit_features(scan(write(tmp_path / "t.csv", "x;day", rows)))
    assert FeatureMap.from_json(features.to_json()) == features
    assert features.spelt["x"]["decimal"] == ","
    frame = pa.table({"x": ["1.234"], "day": ["01/02/2020"]})
    whole = pa.table({"x": [1234.0], "day": [datetime.datetime(2020, 2, 1)]})
    np.testing.assert_array_equal(features.design(frame), features.design(whole))


@pytest.mark.parametrize("na", [["gone"], [], None])
def test_blanks_of_ones_own_are_known_to_further_rows(na, tmp_path):
    odd = "gone" if na == ["gone"] else "2.5"
    rows = [f"{(odd, '3.5', '4.5')[k % 3]},{('a', 'NA')[k % 2]}" for k in range(99)]
    features = fit_features(scan(write(tmp_path / "t.csv", "x,k", rows), na=na))
    assert FeatureMap.from_json(features.to_json()) == features
    again = scan(
        tmp_path / "t.csv", features=features.columns, spelt=features.spelt, na=features.na
    )
    assert fit_features(again) == features
    design = features.design(pa.table({"x": ["3.5"], "k": ["NA"]}))
    shown = "k=NA" if na == [] else "k=(missing)"
    assert design[0, features.names.index(shown)] == 1


def test_parts_of_dates():
    start = datetime.date(2019, 1, 1)
    days = [start + datetime.timedelta(n) for n in range(800)]
    table = pa.table({"day": days, "x": np.arange(800) % 17})
    source = scan(table, date_parts=["day"])
    kinds = {column.name: column.kind for column in source.columns}
    assert kinds["day:month"] == kinds["day:weekday"] == "categorical"
    found = pa.Table.from_batches(source.feature_batches())
    assert found["day:month"].to_pylist() == [day.month for day in days]
    assert found["day:weekday"].to_pylist() == [day.weekday() for day in days]
    features = fit_features(source)
    assert "day:month=12" in features.names
    part = features.design(pa.table({"day": [DAY], "x": [3]}))
    assert part[0, features.names.index("day:month=2")] == 1


def test_parts_of_what_is_no_date_or_is_the_label():
    table = pa.table({"x": [1.0, 2.0], "day": [DAY, DAY]})
    with pytest.raises(DataError, match="'x' holds double, not dates"):
        scan(table, date_parts=["x"])
    with pytest.raises(InputError, match="is the label"):
        scan(table, label="day", date_parts=["day"])
    with pytest.raises(DataError, match="no column 'day:month'"):
        scan(table, label="day", features=["day:month"])


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"decimal": ";"}, "`decimal` must be"),
        ({"decimal": ",", "thousands": ","}, "must differ"),
        ({"delimiter": ",,"}, "`delimiter` must be one character"),
        ({"encoding": "klingon"}, "`encoding` 'klingon' is unknown"),
        ({"na": "-"}, "`na` must be a list"),
    ],
)
def test_options_that_cannot_be(options, match, tmp_path):
    with pytest.raises(InputError, match=match):
        scan(write(tmp_path / "t.csv", "x", ["1"]), **options)


def test_options_of_text_files_are_refused_elsewhere(tmp_path):
    pa.parquet.write_table(pa.table({"x": [1]}), tmp_path / "t.parquet")
    with pytest.raises(InputError, match="`encoding` is for text files"):
        scan(tmp_path / "t.parquet", encoding="utf-8")


def test_minutes_are_no_days(tmp_path):
    rows = [f"12/{day:02d}/1990 08:{minute}" for day, minute in ((2, 29), (13, 30), (3, 31))]
    kind, found = column(write(tmp_path / "t.csv", "k,x", [f"a,{row}" for row in rows]))
    assert kind == "timestamp[us]"
    assert [(when.day, when.minute) for when in found] == [(2, 29), (13, 30), (3, 31)]


def test_labels_have_the_blanks_of_numbers(tmp_path):
    path = write(tmp_path / "t.csv", "x;y", [f"{k};{y}" for k, y in enumerate("1?3-4.k")])
    path.write_text(path.read_text().replace("6;k", "6;k.A."))
    said = {"label": "y", "label_range": (0, 9)}
    with pytest.raises(DataError, match="missing values; pass `drop_missing_labels`"):
        list(scan(path, **said).labelled_batches())
    ((batch, labels),) = scan(path, drop_missing_labels=True, **said).labelled_batches()
    assert batch.column(0).to_pylist() == [0, 2, 4]
    assert labels.tolist() == [1, 3, 4]


def test_names_that_repeat_are_numbered_and_unnamed_columns_left_out(tmp_path):
    rows = [f"{'mf'[k % 2]},{k},{'ab'[k % 2]},,,9" for k in range(4)]
    path = write(tmp_path / "t.csv", '"sex",x,sex,,,y', rows)
    source = scan(path, label="y", label_range=(0, 9))
    assert source.names == ("sex", "x", "sex (2)")
    assert source.notes == (
        "several columns are named 'sex': the later ones are 'sex (2)' and so on",
    )
    (batch,) = source.feature_batches()
    assert batch.to_pydict() == {"sex": [*"mfmf"], "x": [0, 1, 2, 3], "sex (2)": [*"abab"]}


def test_words_among_a_few_numbers_that_repeat_are_levels_like_them(tmp_path: Path) -> None:
    """-1 among names says that there is none; among many different numbers codes are codes."""
    codes = pa.array(["-1"] * 150 + ["0"] * 40 + ["4C9", "A1B"] * 5)
    many = pa.array([*map(str, range(190)), *["A1B"] * 10])

    def kind(texts: pa.Array) -> str:
        path = tmp_path / "t.csv"
        pa.csv.write_csv(pa.table({"code": texts, "x": np.arange(200) / 7}), path)
        return scan(path).columns[0].kind

    assert kind(codes) == "categorical"
    assert kind(many) == "categorical"
    assert kind(pa.array(["0.5"] * 190 + ["A1B"] * 10)) == "categorical"
    assert kind(pa.array([*map(str, range(190)), *["none yet"] * 10])) == "integer"


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
    (column,) = fit_features(source, min_count=1).categorical
    assert {*column.levels} == {*texts}


def test_texts_and_numbers_in_one_column_of_pandas() -> None:
    """Which is text for the texts alone: a few count as missing."""
    frame = pd.DataFrame({"code": [*range(190), *["unknown so far"] * 10]})
    (batch,) = scan(frame).feature_batches()
    assert batch.column(0).to_pylist() == [*range(190), *[None] * 10]


@pytest.mark.parametrize(
    ("texts", "hours"),
    [
        (["08:30", "23:45", None], [8.5, 23.75, None]),
        (["8:30:36", "0:00:00", "-"], [8.51, 0.0, None]),
        (["12:30 AM", "12:30 pm", "1:15PM"], [0.5, 12.5, 13.25]),
        (["37:15:00", "100:30:00", "0:45:00.000"], [37.25, 100.5, 0.75]),
    ],
)
def test_times_of_day_and_durations_are_hours(texts, hours):
    """In text, and by their types."""
    source = scan(csv_of({"x": texts, "z": [1, 2, 3], "y": [1, 2, 3]}), label="y")
    assert source.columns[0].kind == "numeric"
    found = [to_float(batch.column(0), "x") for batch in source.feature_batches()]
    np.testing.assert_array_equal(np.concatenate(found), np.array(hours, float))
    assert "x: times read as hours" in source.notes


def test_typed_times_are_hours():
    quarter = datetime.timedelta(minutes=15)
    for value in (pa.scalar(quarter, pa.duration("ns")), pa.scalar(datetime.time(0, 15))):
        column = pa.array([value.as_py(), None], value.type)
        assert to_float(column, "x").tolist()[0] == 0.25
        assert np.isnan(to_float(column, "x")[1])
        assert scan({"x": column, "y": [1, 2]}, label="y", categorical=["x"]).columns[0].declared


def test_words_among_times_stay_words():
    source = scan({"x": ["08:30", "noon", "09:15"], "y": [1, 2, 3]}, label="y")
    assert source.columns[0].kind == "categorical"


@pytest.mark.parametrize("form", ["csv", "parquet", "pandas"])
def test_what_means_missing_in_one_column(form, tmp_path):
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
    elif form != "pandas":
        data = tmp_path / "t.parquet"
        pyarrow.parquet.write_table(columns, data)
    na = ["q=99", "q=98", "share=-1", "town=99", "y=999"]
    source = scan(data, label="y", label_range=(0, 9), na=na, drop_missing_labels=True)
    batches = [batch for batch, _ in source.labelled_batches()]
    found = pa.Table.from_batches(batches).to_pydict()
    assert found == {
        "age": [99, 41, 99],
        "q": [1, 2, None],
        "share": [0.5, 0.25, 99.0],
        "town": ["A", "B", None],
    }


def test_predictions_know_what_means_missing_in_one_column():
    rows = {"q": [k % 40 if k % 9 else 999 for k in range(400)], "z": [k % 7 for k in range(400)]}
    table = pa.table(rows | {"y": [float(k % 5) for k in range(400)]})
    features = fit_features(scan(table, label="y", na=["q=999"]))
    again = FeatureMap.from_json(features.to_json())
    (batch,) = again.batches(pa.table({"q": [999, 3], "z": [1, 999]}))
    assert batch.to_pydict() == {"q": [None, 3], "z": [1, 999]}
    table = csv_of({"q": ["1.5"] * 30 + ["DK"], "y": [1] * 31})
    with pytest.raises(DataError, match="na: there is no column 'z'; the columns are 'q', 'y'"):
        scan(table, label="y", na=["z=DK"])
    for na in ("q=DK", "q=*"):
        (batch,) = scan(table, label="y", na=[na]).feature_batches()
        assert batch.column(0).to_pylist() == [1.5] * 30 + [None]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("1 février 2021", "14 août 2021"),
        ("1. Februar 2021", "14. August 2021"),
        ("1 de febrero de 2021", "14 de agosto de 2021"),
        ("1 feb. 2021", "14 aug. 2021"),
        ("1-févr-2021", "14-août-2021"),
        ("1 Febbraio 2021", "14 Agosto 2021"),
    ],
)
def test_months_of_other_languages(first, second):
    source = scan(csv_of({"x": [first, second, None], "z": [1, 2, 3], "y": [1, 2, 3]}), label="y")
    found = [to_float(batch.column(0), "x") for batch in source.feature_batches()]
    days = (DAY - datetime.date(1970, 1, 1)).days
    np.testing.assert_array_equal(np.concatenate(found), [days, days + 194, np.nan])
    features = fit_features(source, min_count=1)
    (batch,) = features.batches({"x": [second], "z": [1]})
    assert to_float(batch.column(0), "x").tolist() == [days + 194]
