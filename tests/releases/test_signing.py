"""Who signs a release signs every byte of it: in-toto in DSSE, Ed25519."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from labeldp import InputError, MissingExtraError, Release, ReleaseError, signing, verify
from labeldp.releases.side_files import SIGNATURES, Envelope
from labeldp.signing import PublicKey, make_key, sign
from tests.console import labeldp
from tests.mechanisms.cases import SHAPED, saved, small_plan
from tests.tables import source

pytest.importorskip("cryptography", reason="needs the extra sign")


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ann", "bob", "eve"):
        make_key(folder / name)
    return folder


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory, keys: Path) -> Path:
    rows = source(400)
    folder = saved(small_plan(SHAPED, rows).release(rows), tmp_path_factory.mktemp("r") / "release")
    sign(folder, keys / "ann")
    return folder


@pytest.fixture
def copy(honest: Path, tmp_path: Path) -> Path:
    shutil.copytree(honest, tmp_path / "copy")
    return tmp_path / "copy"


def public(keys: Path, *names: str) -> list[PublicKey]:
    return [PublicKey.read(keys / f"{name}.pub") for name in names]


def test_the_envelope_is_what_other_tools_read(honest: Path, keys: Path) -> None:
    """By hand: envelope, statement, subjects and the signature, with none of our code."""
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    envelope = json.loads((honest / SIGNATURES).read_text())
    assert set(envelope) == {"payloadType", "payload", "signatures"}
    assert envelope["payloadType"] == "application/vnd.in-toto+json"
    payload = base64.b64decode(envelope["payload"])
    told = json.loads(payload)
    assert set(told) == {"_type", "subject", "predicateType", "predicate"}
    assert told["_type"] == "https://in-toto.io/Statement/v1"
    assert told["predicate"]["epsilon"] == 1.0
    files = sorted(path for path in honest.iterdir() if path.name != SIGNATURES)
    assert told["subject"] == [
        {"name": path.name, "digest": {"sha256": hashlib.sha256(path.read_bytes()).hexdigest()}}
        for path in files
    ]
    (one,) = envelope["signatures"]
    assert set(one) == {"keyid", "sig"}
    key: Any = load_pem_public_key((keys / "ann.pub").read_bytes())
    kind = envelope["payloadType"]
    message = f"DSSEv1 {len(kind)} {kind} {len(payload)} ".encode() + payload
    key.verify(base64.b64decode(one["sig"]), message)


def test_a_signed_release_is_valid_with_and_without_the_key(honest: Path, keys: Path) -> None:
    report = verify(honest, keys=public(keys, "ann"))
    assert (report.problems, report.signed_by) == ((), (str(keys / "ann.pub"),))
    bare = verify(honest)
    assert bare.valid
    assert bare.untested[-1] == "whose the signatures may be: give public keys (`key`)"
    assert Release.load(honest).certificate["epsilon"] == 1.0


def test_another_key_did_not_sign(honest: Path, keys: Path) -> None:
    problems = verify(honest, keys=public(keys, "ann", "eve")).problems
    assert problems == (f"it is not signed by {keys / 'eve.pub'}",)


def test_several_people_sign_one_envelope(copy: Path, keys: Path) -> None:
    sign(copy, keys / "bob")
    sign(copy, keys / "bob")
    envelope = Envelope.of(copy)
    assert envelope is not None
    assert len(envelope.signatures) == 2
    assert verify(copy, keys=public(keys, "bob", "ann")).problems == ()
    assert verify(copy, keys=public(keys, "eve")).problems != ()


def test_one_more_than_the_most_signatures_is_refused(
    copy: Path, keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signing, "MOST_SIGNATURES", 1)
    sign(copy, keys / "ann")
    with pytest.raises(ReleaseError, match="has 1 signatures, and no room for another"):
        sign(copy, keys / "bob")


def altered_file(folder: Path) -> None:
    path = folder / "features.json"
    path.write_text(path.read_text() + " ")


@pytest.mark.parametrize("towards", [SIGNATURES, "nowhere"])
def test_a_link_that_leads_nowhere_is_no_envelope(copy: Path, towards: str) -> None:
    (copy / SIGNATURES).unlink(missing_ok=True)
    (copy / SIGNATURES).symlink_to(towards)
    (problem,) = verify(copy).problems
    assert problem == f"{copy / SIGNATURES} is no ordinary file; restore the original one"


def test_what_does_not_verify_is_not_signed(copy: Path, keys: Path) -> None:
    altered_file(copy)
    before = (copy / SIGNATURES).read_bytes()
    with pytest.raises(ReleaseError, match="is not valid and is not signed"):
        sign(copy, keys / "bob")
    assert (copy / SIGNATURES).read_bytes() == before


def test_keys_are_their_owners_alone(keys: Path, copy: Path, tmp_path: Path) -> None:
    assert (keys / "ann").stat().st_mode & 0o777 == 0o600
    assert b"BEGIN PRIVATE KEY" in (keys / "ann").read_bytes()
    with pytest.raises(ReleaseError, match="already exists"):
        make_key(keys / "ann")
    shutil.copy(keys / "bob", tmp_path / "open")
    os.chmod(tmp_path / "open", 0o640)
    with pytest.raises(InputError, match="can be read by other users"):
        sign(copy, tmp_path / "open")


def test_a_key_with_a_passphrase(copy: Path, tmp_path: Path) -> None:
    made = make_key(tmp_path / "locked", "open sesame")
    assert b"BEGIN ENCRYPTED PRIVATE KEY" in (tmp_path / "locked").read_bytes()
    for passphrase, words in ((None, "has a passphrase"), (lambda: "x", "wrong passphrase")):
        with pytest.raises(InputError, match=words):
            sign(copy, tmp_path / "locked", passphrase)
    sign(copy, tmp_path / "locked", lambda: "open sesame")
    assert verify(copy, keys=[made]).valid


def test_files_that_are_no_keys_are_refused(copy: Path, keys: Path, tmp_path: Path) -> None:
    (tmp_path / "none").write_text("no key")
    os.chmod(tmp_path / "none", 0o600)
    for path in (tmp_path / "none", tmp_path / "absent"):
        with pytest.raises(InputError):
            sign(copy, path)
        with pytest.raises(InputError):
            PublicKey.read(path)
    with pytest.raises(InputError, match="does not hold a public key"):
        PublicKey.read(keys / "ann")


def test_the_commands(copy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LABELDP_PASSPHRASE", "open sesame")
    made = labeldp("keygen", tmp_path / "me", "--passphrase", "--json")
    assert (made.code, made.json["public"]) == (0, str(tmp_path / "me.pub"))
    signed = labeldp("sign", copy, "--key", tmp_path / "me", "--json")
    assert (signed.code, signed.json["keyid"]) == (0, made.json["keyid"])
    result = labeldp("verify", copy, "--key", tmp_path / "me.pub")
    assert result.code == 0
    assert f"signed by {tmp_path / 'me.pub'}" in result.out
    assert "--key" in labeldp("verify", copy).out
    (copy / SIGNATURES).unlink()
    assert labeldp("verify", copy, "--key", tmp_path / "me.pub").code == 1
    assert labeldp("keygen", tmp_path / "me").code == 2


def test_without_the_package_the_remedy_is_said(
    keys: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cryptography.hazmat.primitives", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'labeldp\[sign\]'"):
        PublicKey.read(keys / "ann.pub")


def test_a_public_key_does_not_sign(tmp_path: Path) -> None:
    make_key(tmp_path / "key")
    with pytest.raises(InputError, match="is a public key; sign with the private key"):
        sign(tmp_path, tmp_path / "key.pub")
