"""The Croissant description of a release, with which other tools find and load its tables.

It is a pure function of the certificate and the other files, so `verify` writes it again and
compares. It does not mention signatures: they come later and cover it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.release.statement import SIGNATURES

CROISSANT = "croissant.json"
PARQUET, JSON = "application/x-parquet", "application/json"
_TERMS = "http://mlcommons.org/croissant/"
_OWN_TERMS = (
    "citeAs", "column", "equivalentProperty", "extract", "field", "fileObject", "fileProperty",
    "fileSet", "format", "includes", "isLiveDataset", "jsonPath", "key", "md5", "parentField",
    "path", "recordSet", "references", "regex", "repeated", "replace", "samplingRate", "separator",
    "source", "subField", "transform",
)  # fmt: skip
_CONTEXT = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "sc": "https://schema.org/",
    "cr": _TERMS,
    "rai": f"{_TERMS}RAI/",
    "dct": "http://purl.org/dc/terms/",
    "conformsTo": "dct:conformsTo",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "examples": {"@id": "cr:examples", "@type": "@json"},
    **{name: f"cr:{name}" for name in _OWN_TERMS},
}
"""The context that the specification of Croissant 1.0 prescribes."""
_TYPES = {
    "boolean": "sc:Boolean",
    "integer": "sc:Integer",
    "number": "sc:Float",
    "string": "sc:Text",
}


@dataclass(frozen=True)
class File:
    """One file of a release."""

    name: str
    size: int
    sha256: str
    columns: tuple[tuple[str, str], ...]
    """Names and types (keys of `_TYPES`) of columns; empty if it is not a table."""

    @classmethod
    def of(cls, path: Path) -> File:
        """Read size, digest and columns of a file."""
        columns: tuple[tuple[str, str], ...] = ()
        if path.suffix == ".parquet":
            columns = tuple((field.name, _type(field.type)) for field in pq.read_schema(path))
        with path.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return cls(path.name, path.stat().st_size, digest, columns)


def _type(kind: pa.DataType) -> str:
    if pa.types.is_boolean(kind):
        return "boolean"
    if pa.types.is_integer(kind):
        return "integer"
    return "number" if pa.types.is_floating(kind) else "string"


def files_of(folder: Path, but: tuple[str, ...] = ()) -> tuple[File, ...]:
    """Return all files of a release, by name, except those in `but`."""
    paths = (path for path in folder.iterdir() if path.suffix in (".json", ".parquet"))
    return tuple(File.of(path) for path in sorted(paths) if path.name not in but)


def croissant_of(folder: Path, certificate: dict[str, Any]) -> str:
    """Return the text of croissant.json for the other files in this folder, except signatures."""
    return croissant_text(certificate, files_of(folder, but=(CROISSANT, SIGNATURES)))


def title_of(certificate: dict[str, Any]) -> str:
    """Return the curator's title, or one made from the label column."""
    name = (certificate.get("about") or {}).get("name")
    return str(name or f"{certificate['labels']['column']}, label-private")


def description_of(certificate: dict[str, Any]) -> str:
    """Return one sentence about a release."""
    return (
        f"{certificate['bags']:,} aggregates of {certificate['rows']:,} rows, published with label "
        f"differential privacy, ε = {certificate['epsilon']:g}, δ = {certificate['delta']:g} "
        f"(mechanism {certificate['mechanism']}); labels are private, features are public"
    )


def croissant_text(certificate: dict[str, Any], files: tuple[File, ...]) -> str:
    """Return the text of croissant.json."""
    about = certificate.get("about") or {}
    statements = {"license": about.get("licence"), "datePublished": about.get("date")}
    if curator := about.get("curator"):
        statements["creator"] = {"@type": "sc:Organization", "name": curator}
    document = {
        "@context": _CONTEXT,
        "@type": "sc:Dataset",
        "name": title_of(certificate),
        "description": description_of(certificate),
        "conformsTo": f"{_TERMS}1.0",
        "version": "1.0.0",
        **{name: value for name, value in statements.items() if value},
        "distribution": [_file_object(file) for file in files],
        "recordSet": [_record_set(file) for file in files if file.columns],
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _file_object(file: File) -> dict[str, Any]:
    return {
        "@type": "cr:FileObject",
        "@id": file.name,
        "name": file.name,
        "contentUrl": file.name,
        "contentSize": f"{file.size} B",
        "encodingFormat": PARQUET if file.columns else JSON,
        "sha256": file.sha256,
    }


def _record_set(file: File) -> dict[str, Any]:
    stem = Path(file.name).stem
    return {
        "@type": "cr:RecordSet",
        "@id": stem,
        "name": stem,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{stem}/{field_id}",
                "name": f"{stem}/{field_id}",
                "description": name,
                "dataType": _TYPES[kind],
                "source": {"fileObject": {"@id": file.name}, "extract": {"column": name}},
            }
            for field_id, (name, kind) in zip(_field_ids(file), file.columns, strict=True)
        ],
    }


def _field_ids(file: File) -> Iterator[str]:
    """Yield column names without blanks, which readers refuse; numbered where two would agree."""
    taken: set[str] = set()
    for number, (name, _) in enumerate(file.columns):
        plain = "_".join(name.split())
        plain = f"{plain}_{number}" if plain in taken or not plain else plain
        taken.add(plain)
        yield plain
