"""Sign a release with Ed25519 keys in PEM files, offline; needs `cryptography` (extra `sign`)."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from labeldp.errors import InputError, MissingExtraError, ReleaseError
from labeldp.io_util import check_target, new_path, read_bytes
from labeldp.releases.files import Release
from labeldp.releases.side_files import MOST_SIGNATURES, SIGNATURES, Envelope, statement
from labeldp.verification import verify

Passphrase = Callable[[], str]
"""Called only if a key has a passphrase."""


@dataclass(frozen=True)
class PublicKey:
    """An Ed25519 public key, whose signatures `verify` may require."""

    name: str
    keyid: str
    """SHA-256 of the key's DER form."""
    key: Any = field(repr=False)

    @classmethod
    def read(cls, path: str | Path) -> PublicKey:
        """Read a key from a PEM file."""
        serialization, _ = _cryptography()
        text = read_bytes(Path(path))
        try:
            key = serialization.load_pem_public_key(text)
        except ValueError:
            raise InputError(
                f"{path} does not hold a public key; give the .pub file of a key"
            ) from None
        return cls.of(key, str(path))

    @classmethod
    def of(cls, key: Any, name: str) -> PublicKey:
        """Wrap a key object of `cryptography`; refuse anything but Ed25519."""
        serialization, ed25519 = _cryptography()
        if not isinstance(key, ed25519.Ed25519PublicKey):
            raise InputError(f"{name} is not an Ed25519 key; make one with labeldp keygen")
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        der = key.public_bytes(serialization.Encoding.DER, form)
        return cls(name, hashlib.sha256(der).hexdigest(), key)

    def signed(self, envelope: Envelope) -> bool:
        """Return whether one of the signatures is by this key, whatever key ids the file states."""
        from cryptography.exceptions import InvalidSignature

        for _, signature in envelope.signatures:
            try:
                self.key.verify(signature, envelope.message)
                return True
            except InvalidSignature:
                pass
        return False


def make_key(path: str | Path, passphrase: str | None = None) -> PublicKey:
    """Write a new private key to `path` (mode 600) and its public key to `path`.pub."""
    serialization, ed25519 = _cryptography()
    private_path, public_path = Path(path), Path(f"{path}.pub")
    check_target(public_path)  # before the private key is written
    secret = ed25519.Ed25519PrivateKey.generate()
    encryption = (
        serialization.BestAvailableEncryption(passphrase.encode())
        if passphrase
        else serialization.NoEncryption()
    )
    pem, public = serialization.Encoding.PEM, secret.public_key()
    pkcs8 = serialization.PrivateFormat.PKCS8
    with new_path(private_path, private=True) as partial:
        partial.write_bytes(secret.private_bytes(pem, pkcs8, encryption))
    with new_path(public_path) as partial:
        form = serialization.PublicFormat.SubjectPublicKeyInfo
        partial.write_bytes(public.public_bytes(pem, form))
    return PublicKey.of(public, str(public_path))


def sign(directory: str | Path, key: str | Path, passphrase: Passphrase | None = None) -> PublicKey:
    """Add a signature over all files of a valid release; keep the signatures of other keys.

    A release that does not verify is not signed.
    """
    folder, secret = Path(directory), _read_secret(Path(key), passphrase)
    report = verify(folder)
    if not report.valid:
        raise ReleaseError(f"{folder} is not valid and is not signed: {report.problems[0]}")
    payload = statement(folder, Release.load(folder, verify=False).certificate)
    owner, before = PublicKey.of(secret.public_key(), str(key)), Envelope.of(folder)
    others = [each for each in (before.signatures if before else ()) if each[0] != owner.keyid]
    if len(others) >= MOST_SIGNATURES:
        raise ReleaseError(f"{folder} has {MOST_SIGNATURES} signatures, and no room for another")
    signature = secret.sign(Envelope(payload, ()).message)
    envelope = Envelope(payload, (*others, (owner.keyid, signature)))
    # Replace the file atomically; the draft is written outside the release directory.
    target = folder / SIGNATURES
    draft = folder.parent / f".{folder.name}.{SIGNATURES}.partial-{os.getpid()}"
    try:
        with draft.open("x", encoding="utf-8") as file:
            file.write(envelope.text())
            file.flush()
            os.fsync(file.fileno())
        draft.replace(target)
    except OSError as problem:
        raise ReleaseError(f"{target} was not written: {problem.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)
    return owner


def _read_secret(path: Path, passphrase: Passphrase | None) -> Any:
    """Read a private key that no other user can read."""
    serialization, _ = _cryptography()
    text = read_bytes(path)
    if b"PUBLIC KEY" in text:
        raise InputError(f"{path} is a public key; sign with the private key")
    if os.name == "posix" and path.stat().st_mode & 0o077:
        raise InputError(f"{path} can be read by other users; run chmod 600 on it")
    word = None
    if b"ENCRYPTED" in text:
        if passphrase is None:
            raise InputError(f"{path} has a passphrase; enter it")
        word = passphrase().encode()
    try:
        return serialization.load_pem_private_key(text, word)
    except (TypeError, ValueError):
        problem = f"{path} does not hold a private key; make one with labeldp keygen"
        problem = problem if word is None else f"wrong passphrase for {path}"
        raise InputError(problem) from None


def _cryptography() -> tuple[ModuleType, ModuleType]:
    try:
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ed25519
    except ModuleNotFoundError:
        raise MissingExtraError("signing", "sign") from None
    return serialization, ed25519
