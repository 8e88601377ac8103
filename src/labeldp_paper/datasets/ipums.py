"""IPUMS extracts with their DDI codebook: rectangular, hierarchical, or CSV; gzip or not.

The codebook says where a variable stands, how many decimals its digits imply and whether it is a
quantity. CSV extracts have their decimals written out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.errors import DataError, InputError
from labeldp_paper.datasets import census
from labeldp_paper.datasets.declaration import Dataset, Options
from labeldp_paper.datasets.delimited import Cells, read_cells
from labeldp_paper.datasets.fixed_width import MOST_DIGITS, Field, Layout, categories, read_records
from labeldp_paper.datasets.reading import Watch, line_blocks, refuse

CENSUS_COLUMNS = tuple(field.name for field in census.FIELDS)
_MISSING = {"AGE": frozenset({999})}
_PERSON = "P"


@dataclass(frozen=True)
class Codebook:
    """The variables of an extract, with the record types that have them."""

    path: Path
    hierarchical: bool
    fields: dict[str, Field]
    records: dict[str, tuple[str, ...]]

    def lengths(self) -> dict[str, tuple[int, ...]]:
        """Length of a record of each type: where its last variable ends."""
        if not self.hierarchical:
            return {"": (max(field.end for field in self.fields.values()),)}
        kinds = {kind for kinds in self.records.values() for kind in kinds}
        return {
            kind: (max(f.end for n, f in self.fields.items() if kind in self.records[n]),)
            for kind in sorted(kinds)
        }

    def chosen(self, columns: Sequence[str]) -> tuple[Field, ...]:
        """The fields of these variables, all of person records."""
        absent = [name for name in columns if name not in self.fields]
        if absent:
            raise DataError(
                f"{self.path} has no variable {', '.join(absent)}; add it to the extract, or "
                f"choose others with `columns` (it has {', '.join(self.fields)})"
            )
        for name in columns:
            if self.hierarchical and _PERSON not in self.records[name]:
                raise DataError(
                    f"{name} is not in the person records of {self.path}; ask for a rectangular "
                    f"extract, or leave it out with `columns`"
                )
        return tuple(self.fields[name] for name in columns)


def read_codebook(path: Path) -> Codebook:
    """Parse a DDI codebook (any version of its name space)."""
    try:
        root = ElementTree.parse(path).getroot()
    except FileNotFoundError:
        raise DataError(f"{path}: no such codebook; download the DDI of the extract") from None
    except (OSError, ElementTree.ParseError, UnicodeDecodeError) as problem:
        raise DataError(f"{path} is not a DDI codebook: {problem}; download it again") from None
    structure = root.find(".//{*}fileStrc")
    fields, records = {}, {}
    for variable in root.iterfind(".//{*}var"):
        name = variable.get("name", "")
        fields[name] = _field(path, name, variable)
        records[name] = tuple(variable.get("rectype", "").split())
    if not fields:
        raise DataError(f"{path} describes no variables; it is not the DDI codebook of an extract")
    hierarchical = structure is not None and structure.get("type") == "hierarchical"
    return Codebook(path, hierarchical, fields, records)


def read(paths: Sequence[Path], options: Options, watch: Watch) -> Iterator[pa.RecordBatch]:
    """Yield the chosen variables of extracts, by default those of the paper."""
    columns = options.columns or CENSUS_COLUMNS
    for path in paths:
        book = read_codebook(options.codebook or beside(path))
        for batch in _batches(path, book, book.chosen(columns), watch):
            labelled = census.LABEL in columns and not options.keep_zero_weeks
            yield census.with_weeks(batch, watch) if labelled else batch


DATASET = Dataset(
    "ipums",
    "an IPUMS extract, by default the census variables of the paper",
    "an extract (.dat or .csv, .gz or not; rectangular or hierarchical) and its DDI codebook",
    "IPUMS terms of use, in the codebook: register, cite, charge no fee",
    census.LABEL,
    census.label_range,
    census.NUMERIC,
    census.CATEGORICAL,
    options=("codebook", "columns", "keep_zero_weeks"),
    read=read,
)


def beside(path: Path) -> Path:
    """The codebook that IPUMS gives the same name."""
    stem = path.name.removesuffix(".gz").rpartition(".")[0]
    found = path.with_name(f"{stem}.xml")
    if not found.exists():
        raise InputError(f"{path} needs its codebook {found.name}; name it with `codebook`")
    return found


def _batches(
    path: Path, book: Codebook, fields: tuple[Field, ...], watch: Watch
) -> Iterator[pa.RecordBatch]:
    if path.name.removesuffix(".gz").endswith(".csv"):
        yield from _csv_batches(path, book, fields, watch)
        return
    record = _PERSON if book.hierarchical else ""
    title = f"the extract of {book.path.name}"
    yield from read_records(path, Layout(title, book.lengths(), record, fields), watch)


def _csv_batches(
    path: Path, book: Codebook, fields: tuple[Field, ...], watch: Watch
) -> Iterator[pa.RecordBatch]:
    header = _header(path)
    absent = [field.name for field in fields if field.name not in header]
    if absent:
        refuse(path, 1, f"no column {', '.join(absent)}, which {book.path.name} describes")
    whole = {f.name for f in fields if not f.text and not f.decimals}
    types = {
        field.name: pa.string()
        if field.text
        else pa.int64()
        if field.name in whole
        else pa.float64()
        for field in fields
    }
    line = 2
    for batch in read_cells(path, Cells(tuple(header), types, ",", header=True), watch):
        arrays = [_from_cells(path, line, f, batch.column(f.name)) for f in fields]
        yield pa.RecordBatch.from_arrays(arrays, names=[field.name for field in fields])
        line += batch.num_rows


def _header(path: Path) -> list[str]:
    block = next(line_blocks(path, Watch()))
    first = block.partition(b"\n")[0].decode("utf-8-sig", errors="replace")
    return [name.strip().strip('"') for name in first.split(",")]


def _from_cells(path: Path, line: int, field: Field, values: pa.Array) -> pa.Array:
    if field.text:
        return values.dictionary_encode()
    for code in field.missing:
        values = pc.if_else(pc.equal(values, code), pa.scalar(None, values.type), values)
    if field.codes is not None:
        bad = pc.invert(pc.is_in(values, pa.array([*sorted(field.codes), None], values.type)))
        first = pc.index(bad, True).as_py()
        if first >= 0:
            refuse(path, line + first, "not a code of this variable", f"column {field.name}")
    return categories(values) if field.category else values


def _field(path: Path, name: str, variable: ElementTree.Element) -> Field:
    location, style = variable.find("{*}location"), variable.find("{*}varFormat")
    place: dict[str, Any] = location.attrib if location is not None else {}
    try:
        start, end = int(place["StartPos"]), int(place["EndPos"])
        decimals = int(variable.get("dcml") or 0)
    except (KeyError, ValueError):
        raise DataError(f"{path} does not say where {name!r} stands; download it again") from None
    text = style is not None and style.get("type") == "character"
    field = Field(
        name,
        start,
        end,
        category=variable.get("intrvl") == "discrete",
        decimals=decimals,
        text=text or end - start >= MOST_DIGITS,
        missing=_MISSING.get(name, frozenset()),
        signed=True,
    )
    known = {field.name: field for field in census.FIELDS}.get(name)
    if known is None:
        return field
    return replace(field, category=known.category, codes=_WIDER.get(name, known.codes), text=False)


_WIDER = {"SEX": frozenset({1, 2, 9}), "CHBORN": None, "SCHOOL": None, "EMPSTAT": None}
"""Codes that other census years have and 1940 has not."""
