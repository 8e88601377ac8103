"""Pages of a Parquet file, byte by byte: what their headers may say, and to what end."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import ReleaseError
from labeldp.release import tables as parquet_form

STATISTICS = "it has statistics, an index, a dictionary or metadata of columns"
FORM = "a page has statistics, or another form than ours"
WIDE = "a page has more bytes than its values"
COUNTED = "the pages of a column are not those that its footer counts"


def whole(value: int) -> bytes:
    """Zigzag, seven bits a byte."""
    bits, out = (value << 1) ^ (value >> 63), b""
    while bits > 127:
        out, bits = out + bytes([bits & 127 | 128]), bits >> 7
    return out + bytes([bits])


def struct(*fields: tuple[int, Any]) -> bytes:
    """In the compact protocol: numbers as i32, the rest as structs."""
    out, last = b"", 0
    for number, value in fields:
        nested = isinstance(value, bytes)
        out += bytes([(number - last) << 4 | (12 if nested else 5)])
        out, last = out + (value if nested else whole(value)), number
    return out + b"\0"


def page(count: int, raw: int, packed: int | None = None, **changed: Any) -> bytes:
    packed = raw if packed is None else packed
    inner = struct((1, count), (2, 0), (3, 3), (4, 3), *changed.get("inner", ()))
    header = changed.get("header") or struct(
        (1, changed.get("kind", 0)), (2, raw), (3, packed), *changed.get("between", ()), (5, inner)
    )
    return header + b"." * max(0, packed)


def encoded(*kinds: int) -> bytes:
    """The header of 80 values in these encodings: of values, and of both kinds of levels."""
    inner = struct((1, 80), *zip((2, 3, 4), kinds, strict=True))
    return struct((1, 0), (2, 640), (3, 640), (5, inner))


def problems(*pages: bytes, optional: int = 0, **said: Any) -> list[str]:
    content = b"PAR1" + b"".join(pages)
    chunk: Any = SimpleNamespace(
        physical_type=said.get("kind", "DOUBLE"),
        compression=said.get("compression", "SNAPPY"),
        num_values=said.get("values", 80),
    )
    end = said.get("end", len(content))
    file = io.BytesIO(content + b"PAR1" * 200)
    return list(parquet_form._page_problems(file, 4, end, chunk, optional))


def test_pages_that_fill_a_column_have_no_problem() -> None:
    assert problems(page(80, 640, 99)) == []
    assert problems(page(30, 240), page(50, 400), compression="UNCOMPRESSED") == []
    assert problems(page(30, 240), page(50, 400), values=81) == [COUNTED]
    assert problems(page(80, 640), values=79) == [COUNTED]
    assert problems(page(80, 640), end=650) == [COUNTED]
    assert problems(values=0) == []
    assert problems(values=1) == [COUNTED]


@pytest.mark.parametrize(
    ("kind", "optional", "raw", "fits"),
    [
        ("DOUBLE", 0, 640, True), ("DOUBLE", 0, 641, False), ("DOUBLE", 0, 10, True),
        ("DOUBLE", 0, 9, False), ("INT64", 0, 640, True), ("INT64", 0, 641, False),
        ("INT32", 0, 320, True), ("INT32", 0, 321, False), ("BOOLEAN", 0, 80, True),
        ("BOOLEAN", 0, 81, False), ("DOUBLE", 1, 640 + 36, True), ("DOUBLE", 1, 640 + 37, False),
        ("DOUBLE", 2, 640 + 72, True), ("DOUBLE", 2, 640 + 73, False),
        ("BYTE_ARRAY", 0, 10**6, True), ("BYTE_ARRAY", 0, 0, True),
    ],
)  # fmt: skip
def test_a_page_has_as_many_bytes_as_its_values(
    kind: str, optional: int, raw: int, fits: bool
) -> None:
    """80 values: eight bytes each at most, or four, or one; a bit of each at least; and levels."""
    found = problems(page(80, raw, 50), kind=kind, optional=optional)
    assert found == ([] if fits else [WIDE])


GAPS = [None if k % 7 == 3 else k for k in range(300)]
COLUMNS = {
    "numbers": pa.array(range(300), pa.float64()),
    "gaps": pa.array(GAPS, pa.float64()),
    "mostly gaps": pa.array([1, *[None] * 299], pa.int32()),
    "truths": pa.array([k % 3 == 0 for k in range(299)]),
    "truths with gaps": pa.array([None if g is None else g % 2 == 0 for g in GAPS]),
    "texts": pa.array(["a" * (k % 5) for k in range(300)]),
    "texts with gaps": pa.array([None if g is None else str(g) for g in GAPS]),
}


@pytest.mark.parametrize("compression", ["snappy", "none"])
@pytest.mark.parametrize("name", COLUMNS)
def test_a_page_has_no_bytes_behind_its_values(name: str, compression: str, tmp_path: Path) -> None:
    """A byte there for each label would leave with a release: readers skip it."""
    path, array = tmp_path / "t.parquet", COLUMNS[name]
    schema = pa.schema([pa.field("x", array.type, nullable=name != "numbers")])
    writing = parquet_form.WRITING | {"compression": compression}
    pq.write_table(pa.table([array], schema), path, **writing)
    parquet_form.check_form(path)
    footer = pq.read_metadata(path)
    chunk, levels = footer.row_group(0).column(0), footer.schema.column(0).max_definition_level
    stored = path.read_bytes()[4 : 4 + chunk.total_compressed_size]
    header = parquet_form._PAGE_HEADER.match(stored)
    assert header is not None
    raw, _, count = (number // 2 for number in parquet_form._varints(header))
    body = stored[header.end() :]
    if compression == "snappy":
        body = pa.decompress(body, raw, "snappy", asbytes=True)

    def found(body: bytes, said: int = 0) -> list[str]:
        packed = pa.compress(body, "snappy", asbytes=True) if compression == "snappy" else body
        inner = struct((1, count), (2, 0), (3, 3), (4, 3))
        header = struct((1, 0), (2, len(body)), (3, len(packed)), (5, inner))
        content, size = header + packed, said or len(header) + len(body)
        column: Any = SimpleNamespace(
            physical_type=chunk.physical_type,
            compression=chunk.compression,
            total_uncompressed_size=size,
        )
        return list(
            parquet_form._value_problems(io.BytesIO(content), 0, len(content), column, levels)
        )

    words = ["a page has bytes that belong to no value"]
    assert found(body) == []
    assert found(body, said=2**40) == ["a column has another size than its pages"]
    assert found(body + b"1") == words
    assert found(body + bytes(len(array))) == words
    if levels:  # behind the levels; the same level in two runs, of which the first is empty
        size = int.from_bytes(body[:4], "little")
        for hidden in (b"1", b"\1", b"\2\1"):
            longer = (size + len(hidden)).to_bytes(4, "little")
            assert found(longer + body[4 : 4 + size] + hidden + body[4 + size :]) == words
        longer = (size + 2).to_bytes(4, "little")
        assert found(longer + b"\0\1" + body[4:]) == words
    if array.type == pa.bool_() and not array.null_count:  # 299 truths leave five bits
        assert found(body[:-1] + bytes([body[-1] | 128])) == words


def test_a_page_that_would_unpack_to_very_much_is_not_unpacked() -> None:
    chunk: Any = SimpleNamespace(physical_type="BYTE_ARRAY", compression="SNAPPY")
    content = page(80, 2**30, 50)
    found = parquet_form._value_problems(io.BytesIO(content), 0, len(content), chunk, 0)
    assert list(found) == ["a page has bytes that belong to no value"]


def test_a_page_that_is_not_packed_has_the_bytes_it_says() -> None:
    words = "a page has other bytes than it says"
    assert problems(page(80, 640, 639), compression="UNCOMPRESSED") == [words]
    assert problems(page(80, 640, 639)) == []


@pytest.mark.parametrize(
    "changed",
    [
        {"kind": 1}, {"kind": 3}, {"between": [(4, 7)]}, {"inner": [(5, struct((1, 1)))]},
        {"inner": [(6, 1)]}, {"header": struct((1, 0), (2, 640), (3, 640))},
        {"header": struct((1, 0), (2, 640), (3, 640), (8, struct((1, 80))))},
        {"header": encoded(2, 3, 3)},
        {"header": encoded(0, 4, 3)},
        {"header": encoded(0, 3, 0)},
    ],
    ids=range(10),
)  # fmt: skip
def test_a_page_of_another_form_is_noticed(changed: dict[str, Any]) -> None:
    assert problems(page(80, 640, **changed)) == [FORM]


@pytest.mark.parametrize(("count", "packed"), [(80, -1), (-5, 3), (-1, -1)])
def test_a_page_without_a_size_ends_the_search(count: int, packed: int) -> None:
    found = problems(page(count, 640, packed), kind="BYTE_ARRAY")
    assert found == ["a page has no size"]


def test_pages_of_no_values_and_of_no_bytes_are_pages() -> None:
    assert problems(page(0, 0, 0), page(80, 640)) == []


@pytest.mark.parametrize("count", [0, 1, 63, 64, 127, 128, 8191, 8192, 2**27, 2**31 - 1])
def test_numbers_of_any_length(count: int) -> None:
    assert problems(page(count, 7), kind="BYTE_ARRAY", values=count) == []
    assert problems(page(count, 7), kind="BYTE_ARRAY", values=count + 1) == [COUNTED]


@pytest.mark.parametrize("kind", [1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 13])
def test_fields_of_other_types_are_refused(kind: int) -> None:
    header = struct((1, 0), (2, 640), (3, 640), (5, struct((1, 80), (2, 0), (3, 3), (4, 3))))
    assert problems(header + b"." * 640) == []
    for place in (0, 2, 5):
        other = header[:place] + bytes([header[place] & 240 | kind]) + header[place + 1 :]
        assert problems(other + b"." * 640) == [FORM]


def test_a_number_is_written_in_one_way() -> None:
    """Seven zero bits more would make room for a bit of a label in each number."""
    header = struct((1, 0), (2, 640), (3, 640), (5, struct((1, 80), (2, 0), (3, 3), (4, 3))))
    for count in (whole(640), whole(80)):
        longer = count[:-1] + bytes([count[-1] | 128]) + b"\0"
        assert problems(header.replace(count, longer) + b"." * 640) == [FORM]


# --- chunks and footers --------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Two row groups of two columns."""
    table = pa.table({"x": pa.array([1.0, 2.0, 3.0]), "y": pa.array([5, 6, 7])})
    path = tmp_path / "t.parquet"
    with pq.ParquetWriter(path, table.schema, **parquet_form.WRITING) as writer:
        writer.write_table(table)
        writer.write_table(table.slice(1))
        writer.add_key_value_metadata({parquet_form.METADATA_KEY.decode(): "certificate"})
    return path


class Changed:
    """An object of which some attributes are others."""

    def __init__(self, original: Any, changed: dict[str, Any]) -> None:
        self.original, self.changed = original, changed

    def __getattr__(self, name: str) -> Any:
        return self.changed[name] if name in self.changed else getattr(self.original, name)


def changed_footer(path: Path, **changed: Any) -> list[str]:
    footer: Any = Changed(pq.read_metadata(path), changed)
    with path.open("rb") as opened:
        return list(parquet_form._layout_problems(opened, footer))


def changed_chunk(path: Path, **changed: Any) -> list[str]:
    """The problems if the footer said something else of the first column."""
    footer = pq.read_metadata(path)

    class Group(Changed):
        def column(self, number: int) -> Any:
            chunk = self.original.column(number)
            return chunk if number else Changed(chunk, changed)

    return changed_footer(path, row_group=lambda number: Group(footer.row_group(number), {}))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"compression": "ZSTD"}, "it is packed by ZSTD"),
        ({"encodings": ("PLAIN", "RLE_DICTIONARY")}, "it is encoded as PLAIN, RLE_DICTIONARY"),
        ({"data_page_offset": 5}, "it has bytes between its columns"),
        ({"num_values": 8}, "a column has other rows than its group"),
        ({"total_uncompressed_size": 8}, "a group has another size than its columns"),
        *(
            ({name: value}, STATISTICS)
            for name, value in {
                "file_path": "x", "dictionary_page_offset": 4, "bloom_filter_offset": 9,
                "metadata": {b"a": b"b"}, "is_stats_set": True, "is_geo_stats_set": True,
                "has_offset_index": True, "has_column_index": True,
            }.items()
        ),
    ],
    ids=str,
)  # fmt: skip
def test_a_column_is_as_we_write_it(file: Path, changed: dict[str, Any], words: str) -> None:
    assert changed_chunk(file, metadata=None) == []
    assert changed_chunk(file, **changed)[0] == words


def test_columns_stand_one_after_the_other_to_the_footer(file: Path) -> None:
    parquet_form.check_form(file)
    footer = pq.read_metadata(file)
    assert changed_footer(file) == []
    words = "its row groups have other rows than its footer says"
    assert changed_footer(file, num_rows=6) == [words]
    words = "it has bytes that belong to no column"
    for size in (-1, 1):
        assert changed_footer(file, serialized_size=footer.serialized_size + size) == [words]
    content = file.read_bytes()
    file.write_bytes(b"PAR2" + content[4:])
    assert changed_footer(file) == ["it does not begin as Parquet does"]


@pytest.mark.parametrize("number", [0, 1, 6])
def test_a_row_group_has_the_place_of_its_columns(number: int, tmp_path: Path) -> None:
    """No reader looks at that number, which has 63 bits for every group."""
    path = tmp_path / "t.parquet"
    table = pa.table({"x": [float(k) for k in range(70)]})
    pq.write_table(table, path, 10, **parquet_form.WRITING)
    parquet_form.check_form(path)
    place = pq.read_metadata(path).row_group(number).column(0).data_page_offset
    content = path.read_bytes()
    at = content.rindex(b"\x26" + whole(place) + b"\x16") + 1
    path.write_bytes(content[:at] + bytes([content[at] ^ 2]) + content[at + 1 :])
    assert pq.read_table(path) == table
    with pytest.raises(ReleaseError, match="has another place or number than its columns"):
        parquet_form.check_form(path)


@pytest.mark.parametrize("last", [True, False])
def test_a_key_of_metadata_stands_there_once(last: bool, tmp_path: Path) -> None:
    """Readers see one of the values; the other could be anything."""
    path, key = tmp_path / "t.parquet", parquet_form.METADATA_KEY.decode()
    other = "x" * len(key)
    table = pa.table({"x": [1.0, 2.0]})
    with pq.ParquetWriter(path, table.schema, **parquet_form.WRITING) as file:
        file.write_table(table)
        for name in (other, key) if last else (key, other):
            file.add_key_value_metadata({name: name.upper()})
    with pytest.raises(ReleaseError, match="of which the certificate says nothing"):
        parquet_form.check_form(path)
    path.write_bytes(path.read_bytes().replace(other.encode(), key.encode()))
    assert list(pq.read_metadata(path).metadata) == [key.encode()]
    with pytest.raises(ReleaseError, match="it has a key of its metadata twice"):
        parquet_form.check_form(path)


@pytest.mark.parametrize("version", ["21.0.1000", "21.0.0.1", "21.0.0\n", "1" * 200 + ".0.0"])
def test_a_version_has_few_digits(version: str, file: Path) -> None:
    """Digits could stand for labels."""
    footer = pq.read_metadata(file)
    named: Any = Changed(footer, {"created_by": f"parquet-cpp-arrow version {version}"})
    with file.open("rb") as content:
        found = list(parquet_form._footer_problems(content, named))
    assert found == ["another program wrote it"]


# --- sizes ---------------------------------------------------------------------------------------


def test_a_row_group_that_exceeds_memory_is_not_read(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The larger group of the file has three rows of two columns."""
    monkeypatch.setattr(parquet_form, "_MOST_NUMBERS", 6)
    assert parquet_form.StoredTable.open(file).num_rows == 5
    monkeypatch.setattr(parquet_form, "_MOST_NUMBERS", 5)
    with pytest.raises(ReleaseError, match="has 3 rows in a group, too many to read"):
        parquet_form.StoredTable.open(file)
