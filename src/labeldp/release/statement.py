"""What people sign: an in-toto statement over all files of a release, in a DSSE envelope.

The statement is a function of the files, so all signers sign the same bytes and one envelope holds
all signatures. Whether it describes these files is checked here without cryptography; the
signatures themselves are checked in `signing`.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.errors import ReleaseError
from labeldp.io_util import canonical_json, check_regular_file, read_json

SIGNATURES = "release.intoto.json"
"""Name of the envelope in a release; it is not among the files it lists."""
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:labeldp:release:1"
_MOST = 1 << 20
"""Largest size of an envelope in bytes."""
_CLAIMED = ("mechanism", "epsilon", "delta", "unit", "seal")


@dataclass(frozen=True)
class Signature:
    """The id of a key and its signature."""

    keyid: str
    sig: bytes


@dataclass(frozen=True)
class Envelope:
    """A payload of in-toto and its signatures."""

    payload: bytes
    signatures: tuple[Signature, ...]

    @property
    def message(self) -> bytes:
        """Return the bytes that are signed: DSSE's pre-authentication encoding."""
        return encoded(PAYLOAD_TYPE, self.payload)

    def to_json(self) -> dict[str, Any]:
        """Return the DSSE envelope as JSON."""
        return {
            "payloadType": PAYLOAD_TYPE,
            "payload": base64.b64encode(self.payload).decode(),
            "signatures": [
                {"keyid": each.keyid, "sig": base64.b64encode(each.sig).decode()}
                for each in self.signatures
            ],
        }

    def text(self) -> str:
        """Return the content of the file; there is only one for an envelope."""
        return json.dumps(self.to_json(), indent=1) + "\n"

    @classmethod
    def of(cls, folder: Path) -> Envelope | None:
        """Return the envelope of a release, or None; a symbolic link of that name is refused."""
        path = folder / SIGNATURES
        return cls.read(path) if os.path.lexists(path) else None

    @classmethod
    def read(cls, path: Path) -> Envelope:
        """Read an envelope; refuse a file that differs from what `text` writes."""
        check_regular_file(path)
        try:
            envelope = cls.from_json(read_json(path, _MOST))
        except (KeyError, TypeError, AttributeError, binascii.Error, ValueError):
            raise ReleaseError(
                f"{path} does not hold an envelope of signatures; sign again"
            ) from None
        if path.read_bytes() != envelope.text().encode():
            raise ReleaseError(f"{path} was changed after signing; sign again")
        return envelope

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Envelope:
        """Invert `to_json`; raise KeyError, TypeError or ValueError for anything else."""
        signatures = tuple(
            Signature(str(each["keyid"]), base64.b64decode(each["sig"], validate=True))
            for each in document["signatures"]
        )
        if document["payloadType"] != PAYLOAD_TYPE or not signatures:
            raise ValueError("no in-toto payload, or no signature")
        return cls(base64.b64decode(document["payload"], validate=True), signatures)


def encoded(kind: str, payload: bytes) -> bytes:
    """Return PAE(type, body) of DSSE: both with their lengths, so that they cannot be confused."""
    name = kind.encode()
    return b"DSSEv1 %d %b %d %b" % (len(name), name, len(payload), payload)


def statement(folder: Path, certificate: dict[str, Any]) -> bytes:
    """Return the in-toto statement: digests of all files and the main fields of the certificate."""
    names = sorted(path.name for path in folder.iterdir() if path.name != SIGNATURES)
    return canonical_json(
        {
            "_type": STATEMENT,
            "subject": [
                {"name": name, "digest": {"sha256": _sha256(folder / name)}} for name in names
            ],
            "predicateType": PREDICATE,
            "predicate": {name: certificate[name] for name in _CLAIMED},
        }
    ).encode()


def signature_problems(folder: Path, certificate: dict[str, Any]) -> Iterator[str]:
    """Yield how the envelope contradicts the release; nothing if there is no envelope."""
    envelope = Envelope.of(folder)
    if envelope is None:
        return
    keys = [each.keyid for each in envelope.signatures]
    if len(set(keys)) < len(keys):
        yield f"{SIGNATURES} has two signatures of one key"
    if envelope.payload != statement(folder, certificate):
        yield f"{SIGNATURES} was signed over other files: some were altered, added or removed since"


def _sha256(path: Path) -> str:
    check_regular_file(path)
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
