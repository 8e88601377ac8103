"""Files beside the tables of a release: the Croissant description, and the signatures.

croissant.json lets other tools find and load the tables. It is a function of the certificate and
the other files, so `verify` writes it again and compares. Signatures come later and cover it.

release.intoto.json is what people sign: an in-toto statement over all files, in a DSSE envelope.
The statement is a function of the files, so all signers sign the same bytes and one envelope holds
all signatures. Whether it describes these files is checked here without cryptography; the
signatures themselves are checked in `signing`.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.errors import ReleaseError
from labeldp.io_util import canonical_json, check_regular_file, read_json

CROISSANT = "croissant.json"
SIGNATURES = "release.intoto.json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
MOST_SIGNATURES = 16
_MOST = 1 << 20
"""Largest size of an envelope in bytes."""

_TERMS = "http://mlcommons.org/croissant/"
_KINDS = (
    (pa.types.is_boolean, "sc:Boolean"),
    (pa.types.is_integer, "sc:Integer"),
    (pa.types.is_floating, "sc:Float"),
)


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of an ordinary file."""
    check_regular_file(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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


def croissant_text(folder: Path, certificate: dict[str, Any]) -> str:
    """Return the text of croissant.json for the other files in this folder, except signatures."""
    about = certificate.get("about") or {}
    statements = {"license": about.get("licence"), "datePublished": about.get("date")}
    if curator := about.get("curator"):
        statements["creator"] = {"@type": "sc:Organization", "name": curator}
    others = sorted(
        path
        for path in folder.iterdir()
        if path.suffix in (".json", ".parquet") and path.name not in (CROISSANT, SIGNATURES)
    )
    files, records = [], []
    for path in others:
        columns = pq.read_schema(path) if path.suffix == ".parquet" else None
        kind = "application/json" if columns is None else "application/x-parquet"
        files.append(
            {
                "@type": "cr:FileObject",
                "@id": path.name,
                "name": path.name,
                "contentUrl": path.name,
                "contentSize": f"{path.stat().st_size} B",
                "encodingFormat": kind,
                "sha256": sha256_of(path),
            }
        )
        if columns is not None:
            fields = list(_croissant_fields(path, columns))
            records.append(
                {"@type": "cr:RecordSet", "@id": path.stem, "name": path.stem, "field": fields}
            )
    document = {
        # the context that the specification of Croissant 1.0 prescribes
        "@context": read_json(Path(__file__).parent / "croissant_context.json"),
        "@type": "sc:Dataset",
        "name": title_of(certificate),
        "description": description_of(certificate),
        "conformsTo": f"{_TERMS}1.0",
        "version": "1.0.0",
        **{name: value for name, value in statements.items() if value},
        "distribution": files,
        "recordSet": records,
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def _croissant_fields(path: Path, columns: pa.Schema) -> Iterator[dict[str, Any]]:
    """Yield the columns of a table; ids have no blanks, and a number where two would agree."""
    taken: set[str] = set()
    for number, column in enumerate(columns):
        field_id = "_".join(column.name.split())
        field_id = f"{field_id}_{number}" if field_id in taken or not field_id else field_id
        taken.add(field_id)
        kind = next((kind for test, kind in _KINDS if test(column.type)), "sc:Text")
        yield {
            "@type": "cr:Field",
            "@id": f"{path.stem}/{field_id}",
            "name": f"{path.stem}/{field_id}",
            "description": column.name,
            "dataType": kind,
            "source": {"fileObject": {"@id": path.name}, "extract": {"column": column.name}},
        }


@dataclass(frozen=True)
class Envelope:
    """A payload of in-toto, and its signatures by the ids of their keys."""

    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]

    @property
    def message(self) -> bytes:
        """Return the bytes that are signed: DSSE's pre-authentication encoding.

        Type and payload stand with their lengths, so that they cannot be confused.
        """
        kind = PAYLOAD_TYPE.encode()
        return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(self.payload), self.payload)

    def text(self) -> str:
        """Return the content of the file; there is only one for an envelope."""
        document = {
            "payloadType": PAYLOAD_TYPE,
            "payload": base64.b64encode(self.payload).decode(),
            "signatures": [
                {"keyid": keyid, "sig": base64.b64encode(signature).decode()}
                for keyid, signature in self.signatures
            ],
        }
        return json.dumps(document, indent=1) + "\n"

    @classmethod
    def of(cls, folder: Path) -> Envelope | None:
        """Return the envelope of a release, or None; refuse a file that `text` does not write."""
        path = folder / SIGNATURES
        if not os.path.lexists(path):  # a symbolic link of that name is refused below
            return None
        check_regular_file(path)
        document = read_json(path, _MOST)
        try:
            signatures = tuple(
                (str(each["keyid"]), base64.b64decode(each["sig"], validate=True))
                for each in document["signatures"]
            )
            envelope = cls(base64.b64decode(document["payload"], validate=True), signatures)
        except (KeyError, TypeError, AttributeError, ValueError):
            envelope = cls(b"", ())
        keys = {keyid for keyid, _ in envelope.signatures}
        # Without keys nobody can tell a signature from other bytes: theirs are few, and of one form
        sound = all(len(signature) == 64 for _, signature in envelope.signatures)
        sound = sound and all(re.fullmatch("[0-9a-f]{64}", key) for key in keys)
        sound = sound and 1 <= len(keys) == len(envelope.signatures) <= MOST_SIGNATURES
        if not sound or path.read_bytes() != envelope.text().encode():
            raise ReleaseError(
                f"{path} does not hold signatures as labeldp writes them; sign again"
            )
        return envelope


def statement(folder: Path, certificate: dict[str, Any]) -> bytes:
    """Return the in-toto statement: digests of all files and the main fields of the certificate."""
    names = sorted(path.name for path in folder.iterdir() if path.name != SIGNATURES)
    claimed = ("mechanism", "epsilon", "delta", "unit", "seal")
    return canonical_json(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [
                {"name": name, "digest": {"sha256": sha256_of(folder / name)}} for name in names
            ],
            "predicateType": "urn:labeldp:release:1",
            "predicate": {name: certificate[name] for name in claimed},
        }
    ).encode()
