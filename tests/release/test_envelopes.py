"""Envelopes of signatures, without any cryptography: which are read, and what they speak of."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from labeldp import ReleaseError
from labeldp.release.side_files import SIGNATURES, Envelope, signature_problems, statement

CERTIFICATE: dict[str, Any] = {
    "mechanism": "m", "epsilon": 1.0, "delta": 0.0, "unit": "one row", "seal": "s", "more": 7,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "b.txt").write_bytes(b"x" * (3 << 20))
    (tmp_path / "a.txt").write_text("hello")
    return tmp_path


def enveloped(folder: Path, *keys: str) -> Envelope:
    made = tuple((key, f"signature {key}".encode()) for key in keys)
    envelope = Envelope(statement(folder, CERTIFICATE), made)
    (folder / SIGNATURES).write_text(envelope.text())
    return envelope


def problems(folder: Path) -> list[str]:
    return list(signature_problems(folder, CERTIFICATE))


def test_an_envelope_has_one_text(folder: Path) -> None:
    envelope = enveloped(folder, "ann", "bob")
    text = json.dumps(
        {
            "payloadType": "application/vnd.in-toto+json",
            "payload": base64.b64encode(envelope.payload).decode(),
            "signatures": [
                {"keyid": key, "sig": base64.b64encode(f"signature {key}".encode()).decode()}
                for key in ("ann", "bob")
            ],
        },
        indent=1,
    )
    assert (folder / SIGNATURES).read_text() == text + "\n"
    assert Envelope.of(folder) == envelope
    (folder / SIGNATURES).write_text(text)
    with pytest.raises(ReleaseError) as refusal:
        Envelope.of(folder)
    assert str(refusal.value) == f"{folder / SIGNATURES} was changed after signing; sign again"


def test_each_key_signs_once(folder: Path) -> None:
    assert problems(folder) == []
    for keys in (("ann",), ("ann", "bob"), ("ann", "bob", "eve")):
        enveloped(folder, *keys)
        assert problems(folder) == []
    for keys in (("ann", "ann"), ("ann", "bob", "ann")):
        enveloped(folder, *keys)
        assert problems(folder) == [f"{SIGNATURES} has two signatures of one key"]


def test_an_envelope_speaks_of_these_files_alone(folder: Path) -> None:
    words = f"{SIGNATURES} was signed over other files: some were altered, added or removed since"
    enveloped(folder, "ann")
    (folder / "c.txt").write_text("new")
    assert problems(folder) == [words]
    (folder / "c.txt").unlink()
    assert problems(folder) == []
    (folder / "a.txt").write_text("hellO")
    assert problems(folder) == [words]


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
