"""Envelopes of signatures, without any cryptography: which are read, and what they speak of."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from labeldp import ReleaseError
from labeldp.releases.side_files import SIGNATURES, Envelope, statement

CERTIFICATE: dict[str, Any] = {
    "mechanism": "m", "epsilon": 1.0, "delta": 0.0, "unit": "one row", "seal": "s", "more": 7,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.txt").write_bytes(b"x" * (3 << 20))
    (tmp_path / "a.txt").write_text("hello")
    return tmp_path


def signed(name: str) -> tuple[str, bytes]:
    """A key's id and a signature, in the form of Ed25519's."""
    return hashlib.sha256(name.encode()).hexdigest(), hashlib.sha512(name.encode()).digest()


def enveloped(folder: Path, *keys: str) -> Envelope:
    made = tuple(map(signed, keys))
    envelope = Envelope(statement(folder, CERTIFICATE), made)
    (folder / SIGNATURES).write_text(envelope.text())
    return envelope


def speaks_of(folder: Path) -> bool:
    """Whether the envelope was signed over these files."""
    envelope = Envelope.of(folder)
    assert envelope is not None
    return envelope.payload == statement(folder, CERTIFICATE)


def refusal_of(folder: Path) -> str:
    with pytest.raises(ReleaseError) as refusal:
        Envelope.of(folder)
    return str(refusal.value)


def refused(folder: Path) -> str:
    return f"{folder / SIGNATURES} does not hold signatures as labeldp writes them; sign again"


def test_an_envelope_has_one_text(folder: Path) -> None:
    envelope = enveloped(folder, "ann", "bob")
    text = json.dumps(
        {
            "payloadType": "application/vnd.in-toto+json",
            "payload": base64.b64encode(envelope.payload).decode(),
            "signatures": [
                {"keyid": keyid, "sig": base64.b64encode(signature).decode()}
                for keyid, signature in map(signed, ("ann", "bob"))
            ],
        },
        indent=1,
    )
    assert (folder / SIGNATURES).read_text() == text + "\n"
    assert Envelope.of(folder) == envelope
    (folder / SIGNATURES).write_text(text)
    assert refusal_of(folder) == refused(folder)


def test_each_key_signs_once(folder: Path) -> None:
    assert Envelope.of(folder) is None
    for keys in (("ann",), ("ann", "bob"), ("ann", "bob", "eve")):
        enveloped(folder, *keys)
        assert speaks_of(folder)
    for keys in (("ann", "ann"), ("ann", "bob", "ann")):
        enveloped(folder, *keys)
        assert refusal_of(folder) == refused(folder)


@pytest.mark.parametrize(
    "signature",
    [("labels 1 2 3", bytes(64)), ("0" * 65, bytes(64)), ("A" * 64, bytes(64)),
     ("0" * 64, bytes(65)), ("0" * 64, b"")],
    ids=range(5),
)  # fmt: skip
def test_signatures_have_no_room_for_labels(folder: Path, signature: tuple[str, bytes]) -> None:
    envelope = Envelope(statement(folder, CERTIFICATE), (signed("ann"), signature))
    (folder / SIGNATURES).write_text(envelope.text())
    assert refusal_of(folder) == refused(folder)


def test_a_release_has_few_signatures(folder: Path) -> None:
    enveloped(folder, *map(str, range(16)))
    assert speaks_of(folder)
    enveloped(folder, *map(str, range(17)))
    assert refusal_of(folder) == refused(folder)


def test_an_envelope_speaks_of_these_files_alone(folder: Path) -> None:
    enveloped(folder, "ann")
    (folder / "c.txt").write_text("new")
    assert not speaks_of(folder)
    (folder / "c.txt").unlink()
    assert speaks_of(folder)
    (folder / "a.txt").write_text("hellO")
    assert not speaks_of(folder)


@pytest.mark.parametrize(
    "change",
    [{"signatures": []}, {"payloadType": "application/json"}, {"payload": "no base64!"},
     {"payload": 5}, {"signatures": [{"keyid": "ann"}]}, {"signatures": 3},
     {"signatures": [{"keyid": "a", "sig": "!"}]}, {"labels": [1, 2]},
     {"signatures": [{"keyid": "a" * (1 << 20), "sig": ""}]}],
    ids=range(9),
)  # fmt: skip
def test_what_is_no_envelope_is_refused(folder: Path, change: dict[str, Any]) -> None:
    document = json.loads(enveloped(folder, "ann").text()) | change
    (folder / SIGNATURES).write_text(json.dumps(document, indent=1) + "\n")
    with pytest.raises(ReleaseError, match=SIGNATURES):
        Envelope.of(folder)
