"""The file of a fitted model: one file, no pickle, floats exact, written whole or not at all.

It is a JSON document. Where a model has arrays, it is a NumPy .npz that holds the document's text
as the bytes of `header`; `numpy.load(path, allow_pickle=False)` opens it anywhere. The .npz is
stored without compression, so it cannot unfold into more than it is. A seal (SHA-256 over all
fields and arrays) makes an altered model fail to load instead of predicting something else.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import zipfile
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InputError, to_path
from labeldp.io_util import (
    json_digest,
    parse_json,
    path_problem,
    refuse_existing,
)

VERSION = 1

Document = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

_REMEDY = "name one that a fitted model was written to"

DAMAGE = (
    OSError,
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    ArithmeticError,
    EOFError,
    MemoryError,
    RuntimeError,  # of which RecursionError and NotImplementedError, by zipfile
    zipfile.BadZipFile,
)
"""Whatever reading a damaged file may raise."""


def write_document(
    path: str | PathLike[str], document: Document, arrays: Arrays | None = None
) -> None:
    """Seal a document and write it: to a new file beside `path`, which is then renamed."""
    try:  # floats are written by repr: exact
        sealed = {**document, "seal": seal_of(document, arrays or {})}
        text = json.dumps(sealed, allow_nan=False, indent=None if arrays else 1)
    except ValueError as error:
        raise InputError("the model holds a number that is not finite; fit it again") from error
    target = Path(path)
    refuse_existing(target)
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with open(partial, "xb") as file:
            if arrays:
                header = np.frombuffer(text.encode(), dtype=np.uint8)
                np.savez(file, allow_pickle=False, **{"header": header, **arrays})
            else:
                file.write(text.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(partial, target)
    except OSError as error:
        raise InputError(f"cannot write the model to {target}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # it is there only if the rename was not reached
            partial.unlink()


def read_document(path: str | PathLike[str]) -> tuple[Document, Arrays]:
    """Return the document and the arrays of a file; their fields are not checked yet."""
    reason = path_problem(to_path("path", path))
    if reason is not None:
        raise InputError(f"cannot read a model from {path}: {reason}")
    arrays: Arrays = {}
    try:
        with open(path, "rb") as file:
            if file.read(2) == b"PK":
                arrays = _read_arrays(file, path)
                text = arrays.pop("header", np.empty(0)).tobytes()
            else:
                file.seek(0)
                text = file.read()
    except OSError as error:
        raise InputError(f"cannot read a model from {path}: {error.strerror}; {_REMEDY}") from error
    try:
        document = parse_json(text.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a model file: it is not JSON; {_REMEDY}") from error
    return document if isinstance(document, dict) else {}, arrays


def _read_arrays(file: Any, path: str | PathLike[str]) -> Arrays:
    try:
        with zipfile.ZipFile(file) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ValueError("it is compressed")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except DAMAGE as error:
        raise InputError(f"{path} is not a model file, or a damaged one") from error


def check_header(document: Document, expected: str, path: str | PathLike[str]) -> None:
    """Refuse a document of another format or version."""
    if document.get("format") != expected:
        raise InputError(f'{path} is not a model file: "format" is not "{expected}"; {_REMEDY}')
    if document.get("version") != VERSION:
        raise InputError(
            f"{path} is a model file of a version other than {VERSION}; update labeldp"
        )


def seal_of(document: Document, arrays: Arrays) -> str:
    """Return a checksum of all fields but the seal, and of all arrays."""
    body = {name: value for name, value in document.items() if name != "seal"}
    numbers = {
        name: [str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
        for name, array in arrays.items()
    }
    return json_digest([body, numbers])
