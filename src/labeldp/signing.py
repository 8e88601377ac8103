"""Sign a release with Ed25519 keys in PEM files, offline; needs `cryptography` (extra `sign`)."""

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
from labeldp.verification import verify

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
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
        tools, place = _tools(), Path(path)
        text = read_small(place)
        try:
            found = tools.load_pem_public_key(text)
        except ValueError:
            raise InputError(
                f"{place} does not hold a public key; give the .pub file of a key"
            ) from None
        return cls.of(found, str(place))

    @classmethod
    def of(cls, key: Any, name: str) -> PublicKey:
        """Wrap a key object of `cryptography`; refuse anything but Ed25519."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        if not isinstance(key, Ed25519PublicKey):
            raise InputError(f"{name} is not an Ed25519 key; make one with labeldp keygen")
        tools = _tools()
        der = key.public_bytes(tools.Encoding.DER, tools.PublicFormat.SubjectPublicKeyInfo)
        return cls(name, hashlib.sha256(der).hexdigest(), key)

    def signed(self, envelope: Envelope) -> bool:
        """Return whether one of the signatures is by this key, whatever key ids the file states."""
        return any(self._accepts(envelope.message, each.sig) for each in envelope.signatures)

    def _accepts(self, message: bytes, signature: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature

        with suppress(InvalidSignature):
            self.key.verify(signature, message)
            return True
        return False


def make_key(path: str | Path, passphrase: str | None = None) -> PublicKey:
    """Write a new private key to `path` (mode 600) and its public key to `path`.pub."""
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
    """Add a signature over all files of a valid release; keep the signatures of other keys.

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
        raise InputError(f"{path} is a public key; sign with the private key")
    if os.name == "posix" and path.stat().st_mode & _OTHERS:
        raise InputError(f"{path} can be read by other users; run chmod 600 on it")
    try:
        return tools.load_pem_private_key(text, None)
    except TypeError:  # it has a passphrase
        pass
    except ValueError:
        raise InputError(
            f"{path} does not hold a private key; make one with labeldp keygen"
        ) from None
    if passphrase is None:
        raise InputError(f"{path} has a passphrase; enter it")
    try:
        return tools.load_pem_private_key(text, passphrase().encode())
    except ValueError:
        raise InputError(f"wrong passphrase for {path}") from None


def _write(path: Path, text: bytes, mode: int) -> None:
    """Create a file with this mode from the start, so that it is never readable by others."""
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())


def _replace(target: Path, text: str) -> None:
    """Replace a file atomically; the draft is written outside the release directory."""
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
