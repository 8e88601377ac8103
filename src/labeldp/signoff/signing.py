"""Signing a release: Ed25519 keys in PEM files, offline, by `cryptography` (extra `sign`)."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from labeldp.errors import InputError, MissingExtraError, ReleaseError
from labeldp.io_util import check_target, read_small
from labeldp.release.files import Release
from labeldp.release.statement import SIGNATURES, Envelope, Signature, statement
from labeldp.signoff.verification import verify

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
Passphrase = Callable[[], str]
"""Asked for only if a key has one."""


@dataclass(frozen=True)
class PublicKey:
    """Whose signatures are looked for."""

    name: str
    keyid: str
    """SHA-256 of the key's DER form."""
    key: Any = field(repr=False)

    @classmethod
    def read(cls, path: str | Path) -> PublicKey:
        """From a PEM file."""
        tools, place = _tools(), Path(path)
        text = read_small(place)
        try:
            found = tools.load_pem_public_key(text)
        except ValueError:
            raise InputError(f"{place} holds no public key; give the .pub file of a key") from None
        return cls.of(found, str(place))

    @classmethod
    def of(cls, key: Any, name: str) -> PublicKey:
        """A key of `cryptography`, which must be of Ed25519."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if not isinstance(key, Ed25519PublicKey):
            raise InputError(f"{name} is no Ed25519 key; make one with labeldp keygen")
        tools = _tools()
        der = key.public_bytes(tools.Encoding.DER, tools.PublicFormat.SubjectPublicKeyInfo)
        return cls(name, hashlib.sha256(der).hexdigest(), key)

    def signed(self, envelope: Envelope) -> bool:
        """Whether one of the signatures is this key's; the ids beside them are only hints."""
        return any(self._accepts(envelope.message, each.sig) for each in envelope.signatures)

    def _accepts(self, message: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature

        with suppress(InvalidSignature):
            self.key.verify(signature, message)
            return True
        return False


def make_key(path: str | Path, passphrase: str | None = None) -> PublicKey:
    """A new key in `path`, for its owner alone, and its public half in `path`.pub."""
    tools, place = _tools(), Path(path)
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = place.with_name(place.name + ".pub")
    for target in (place, public):
        check_target(target)
    secret = Ed25519PrivateKey.generate()
    locked = (
        tools.BestAvailableEncryption(passphrase.encode()) if passphrase else tools.NoEncryption()
    )
    _write(
        place, secret.private_bytes(tools.Encoding.PEM, tools.PrivateFormat.PKCS8, locked), 0o600
    )
    shown = secret.public_key()
    form = tools.PublicFormat.SubjectPublicKeyInfo
    _write(public, shown.public_bytes(tools.Encoding.PEM, form), 0o644)
    return PublicKey.of(shown, str(public))


def sign(directory: str | Path, key: str | Path, passphrase: Passphrase | None = None) -> PublicKey:
    """Add a signature over all files of a valid release; signatures of others stay.

    A release that does not verify is not signed.
    """
    folder, secret = Path(directory), _read_secret(Path(key), passphrase)
    report = verify(folder)
    if not report.valid:
        raise ReleaseError(f"{folder} is not valid and is not signed: {report.problems[0]}")
    certificate = Release.load(folder, verify=False).certificate
    fresh = Envelope(statement(folder, certificate), ())
    owner = PublicKey.of(secret.public_key(), str(key))
    before = Envelope.of(folder)
    others = before.signatures if before else ()
    kept = [each for each in others if each.keyid != owner.keyid]
    added = Signature(owner.keyid, secret.sign(fresh.message))
    _replace(folder / SIGNATURES, Envelope(fresh.payload, (*kept, added)).text())
    return owner


def _read_secret(path: Path, passphrase: Passphrase | None) -> Any:
    tools, text = _tools(), read_small(path)
    if b"PUBLIC KEY" in text:
        raise InputError(f"{path} is a public key; sign with the private one")
    if os.name == "posix" and path.stat().st_mode & _OTHERS:
        raise InputError(f"{path} can be read by others; make it yours alone (chmod 600)")
    try:
        return tools.load_pem_private_key(text, None)
    except TypeError:  # it has a passphrase
        pass
    except ValueError:
        raise InputError(f"{path} holds no private key; make one with labeldp keygen") from None
    if passphrase is None:
        raise InputError(f"{path} has a passphrase; give it")
    try:
        return tools.load_pem_private_key(text, passphrase().encode())
    except ValueError:
        raise InputError(f"the passphrase of {path} is another one") from None


def _write(path: Path, text: bytes, mode: int) -> None:
    """A new file that never had wider permissions."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _replace(target: Path, text: str) -> None:
    """The old signatures or the new ones, never a half; the draft stands outside the release."""
    draft = target.parent.parent / f".{target.parent.name}.{target.name}.partial-{os.getpid()}"
    try:
        _write(draft, text.encode(), 0o644)
        draft.replace(target)
    except OSError as problem:
        raise ReleaseError(f"{target} was not written: {problem.strerror}") from None
    finally:
        draft.unlink(missing_ok=True)


def _tools() -> Any:
    try:
        from cryptography.hazmat.primitives import serialization
    except ModuleNotFoundError:
        raise MissingExtraError("signing", "sign") from None
    return serialization
