"""Labels: checked, converted, and never told."""

from __future__ import annotations

import decimal
import traceback

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp.data.source import scan
from labeldp.errors import DataError, InputError
from tests.tables import told

SECRET = 7319.25  # outside every range below, and easy to find in a message


def labels_of(data, **options):
    options = {"label": "y", "label_range": (0, 10)} | options
    return np.concatenate([y for _, y in scan(data, **options).labelled_batches()])


def table(labels, type_=None):
    return pa.table({"x": list(range(len(labels))), "y": pa.array(labels, type_)})


@pytest.mark.parametrize(
    ("labels", "type_"),
    [
        ([0, 1, 10], pa.int8()),
        ([0, 1, 10], pa.uint64()),
        ([0.0, 1.0, 10.0], pa.float32()),
        ([decimal.Decimal("0.00"), decimal.Decimal("1.00"), decimal.Decimal("10.00")], None),
    ],
)
def test_numeric_types(labels, type_):
    np.testing.assert_array_equal(labels_of(table(labels, type_)), [0, 1, 10])


def test_booleans_are_zero_and_one(tmp_path):
    np.testing.assert_array_equal(labels_of(table([True, False])), [1, 0])
    (tmp_path / "t.csv").write_text("x,y\n1,True\n2,false\n3,1\n")
    np.testing.assert_array_equal(labels_of(tmp_path / "t.csv"), [1, 0, 1])


def test_dictionary_labels():
    np.testing.assert_array_equal(
        labels_of(table(pa.array([3, 5, 3]).dictionary_encode())), [3, 5, 3]
    )


@pytest.mark.parametrize("form", ["csv", "parquet", "dictionary"])
def test_labels_spelt_out_in_text_are_read_in_every_format(form, tmp_path):
    """As the same texts in a CSV file: separators, and blanks in their spellings."""
    texts = pa.array(["1,234.5", "NULL", " 7 ", "", "-", "n/a", "ref1", "$9"])
    columns = pa.table({"x": ["1,000.5"] * 8, "y": texts})
    if form == "csv":
        columns.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    else:
        y = texts.dictionary_encode() if form == "dictionary" else texts
        pq.write_table(columns.set_column(1, "y", y), tmp_path / "t.parquet")
    (path,) = tmp_path.iterdir()
    said = {"label_range": (0, 2000), "drop_missing_labels": True, "na": ["ref1"]}
    np.testing.assert_array_equal(labels_of(path, **said), [1234.5, 7, 9])
    with pytest.raises(DataError, match="label column 'y' holds text that is not a number"):
        labels_of(path, **said | {"na": None})


def test_a_label_of_several_fields_is_not_taken_for_missing(tmp_path):
    """Which would drop its row, where a stray delimiter is to be refused."""
    (tmp_path / "t.csv").write_text("x,y\n1,2\n2,unknown\n3,4\n")
    said = {"label_range": (0, 9), "drop_missing_labels": True}
    np.testing.assert_array_equal(labels_of(tmp_path / "t.csv", **said), [2, 4])
    (tmp_path / "t.csv").write_text("x,y\n1,2\n2,a,b\n3,4\n")
    with pytest.raises(DataError, match="holds text that is not a number"):
        labels_of(tmp_path / "t.csv", **said)


@pytest.mark.parametrize("answer", ["A", "U", "withheld", "refused", "nil", "n.d.", "No answer"])
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_an_answer_is_not_taken_for_missing(answer, form, tmp_path):
    """To leave its row out would show who gave it."""
    columns = pa.table({"x": [1, 2, 3, 4], "y": ["2", answer, " NA ", "4"]})
    path = tmp_path / f"t.{form}"
    frame = columns.to_pandas()
    frame.to_csv(path, index=False) if form == "csv" else frame.to_parquet(path)
    said = {"label_range": (0, 9), "drop_missing_labels": True}
    with pytest.raises(DataError, match="holds text that is not a number"):
        labels_of(path, **said)
    source = scan(path, label="y", **said)
    assert sum(batch.num_rows for batch in source.feature_batches()) == 3
    np.testing.assert_array_equal(labels_of(path, **said, na=[answer]), [2, 4])


@pytest.mark.parametrize("type_", [pa.binary(), pa.timestamp("us"), pa.list_(pa.int8())])
def test_other_types_are_refused_by_name(type_):
    with pytest.raises(DataError, match=r"label column 'y' has type .*not numeric"):
        scan(table([None, None], type_), label="y")


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (None, "missing values; pass `drop_missing_labels`"),
        (float("nan"), "missing values"),
        (float("inf"), "infinities"),
        (SECRET, "outside the range 0 to 10; widen"),
    ],
)
@pytest.mark.parametrize("place", ["table", "parquet", "csv"])
def test_bad_labels_are_refused_without_a_word_about_them(bad, words, place, tmp_path):
    rows = 1000
    data = table([5.0] * 613 + [bad] + [5.0] * (rows - 614))
    if place == "parquet":
        pq.write_table(data, tmp_path / "t.parquet")
        data = tmp_path / "t.parquet"
    elif place == "csv":
        data.to_pandas().to_csv(tmp_path / "t.csv", index=False)
        data = tmp_path / "t.csv"
    with pytest.raises(DataError, match=words) as caught:
        labels_of(data, batch_rows=100)
    told = "".join(traceback.format_exception(caught.value))
    message = str(caught.value)
    assert "rows are not named because labels are private" in message
    assert "\n" not in message
    for trace in ("7319", "613", "614"):
        assert trace not in message
        assert trace not in told.replace("line 61", "")


def test_text_in_a_csv_label_is_not_quoted(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,2\n2,secret\n")
    with pytest.raises(DataError, match="label column 'y' holds text") as caught:
        labels_of(tmp_path / "t.csv")
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_a_broken_csv_line_is_not_quoted(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,2\n2,3,secret\n")
    with pytest.raises(DataError, match="a delimiter or quote too many in a line") as caught:
        labels_of(tmp_path / "t.csv")
    assert "secret" not in "".join(traceback.format_exception(caught.value))


def test_refusal_comes_after_the_last_batch_so_its_place_is_not_told():
    source = scan(table([SECRET] + [5.0] * 99), label="y", label_range=(0, 10), batch_rows=10)
    batches = source.labelled_batches()
    seen = [next(batches)[1] for _ in range(10)]
    assert all((y >= 0).all() and (y <= 10).all() for y in seen), "range obeyed meanwhile"
    with pytest.raises(DataError):
        next(batches)


def test_clip():
    np.testing.assert_array_equal(labels_of(table([-SECRET, 3.0, SECRET]), clip=True), [0, 3, 10])
    with pytest.raises(DataError, match="infinities"):
        labels_of(table([float("inf")]), clip=True)


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_drop_missing_labels_drops_the_same_rows_everywhere(missing, tmp_path):
    data = table([1.0, missing, 3.0, missing])
    data.to_pandas().to_csv(tmp_path / "t.csv", index=False)
    for form in (data, tmp_path / "t.csv"):
        source = scan(form, label="y", label_range=(0, 10), drop_missing_labels=True, batch_rows=1)
        features = pa.Table.from_batches(source.feature_batches())
        assert features.to_pydict() == {"x": [0, 2]}
        assert [y.tolist() for _, y in source.labelled_batches()] == [[1.0], [3.0]]


def test_labels_need_a_name_and_a_range():
    with pytest.raises(InputError, match="label"):
        next(scan(table([1])).labelled_batches())
    with pytest.raises(InputError, match="label_range"):
        next(scan(table([1]), label="y").labelled_batches())


def test_repr_and_description_hold_no_label():
    source = scan(table([SECRET]), label="y", label_range=(0, 10))
    assert "7319" not in repr(source) + str(source) + str(told(source))
    assert source == scan(table([1.0]), label="y", label_range=(0, 10))


def test_features_are_read_without_labels(monkeypatch):
    source = scan(table([1.0, 2.0]), label="y", label_range=(0, 10))
    read = []
    batches = type(source.reader).batches
    monkeypatch.setattr(
        type(source.reader),
        "batches",
        lambda self, columns, rows: read.append(list(columns)) or batches(self, columns, rows),
    )
    list(source.feature_batches())
    assert read == [["x"]]
