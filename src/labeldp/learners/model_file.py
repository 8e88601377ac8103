"""A fitted model as one file: no pickle, floats exact, written whole or not at all.

A model is a JSON document and, where it has arrays, a NumPy .npz that holds the document's text as
the bytes of `header`. The .npz is stored without compression, so it cannot unfold into more than it
is. `numpy.load(path, allow_pickle=False)` opens it anywhere.
"""

from __future__ import annotations

import json
import os
import secrets
import zipfile
from collections.abc import Callable
from contextlib import suppress
from os import PathLike
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InputError
from labeldp.features import FeatureMap
from labeldp.learners.protocol import Learner, Model

VERSION = 1

Document = dict[str, Any]
Arrays = dict[str, NDArray[Any]]

_DAMAGE = (
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


def write(
    path: str | PathLike[str], learner: Learner, fields: Document, arrays: Arrays | None = None
) -> None:
    """Write to `path` by way of a new file beside it and a rename."""
    document = {"format": learner.format, "version": VERSION, **fields}
    try:  # floats are written by repr: exact
        text = json.dumps(document, allow_nan=False, indent=None if arrays else 1)
    except ValueError as error:
        raise InputError("the model holds a number that is not finite; fit it again") from error
    target = Path(path)
    beside = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        with open(beside, "xb") as file:
            if arrays:
                header = np.frombuffer(text.encode(), dtype=np.uint8)
                np.savez(file, allow_pickle=False, **{"header": header, **arrays})
            else:
                file.write(text.encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except OSError as error:
        raise InputError(f"cannot write the model to {target}: {error.strerror}") from error
    finally:
        with suppress(OSError):  # it is there only if the rename was not reached
            beside.unlink()


def read(path: str | PathLike[str]) -> tuple[Document, Arrays]:
    """The document and the arrays in a file."""
    try:
        with open(path, "rb") as file:
            zipped = file.read(2) == b"PK"
            file.seek(0)
            arrays = _arrays(file, path) if zipped else {}
            text = arrays.pop("header", np.empty(0)).tobytes() if zipped else file.read()
    except OSError as error:
        raise InputError(f"cannot read a model from {path}: {error.strerror}") from error
    try:
        document = json.loads(text.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a model file: it is not JSON") from error
    return document if isinstance(document, dict) else {}, arrays


def parse(learner: Learner, document: Document, arrays: Arrays, path: str | PathLike[str]) -> Model:
    """The model in what `read` found; anything out of place is an InputError."""
    if document.get("format") != learner.format:
        raise InputError(f'{path} is not a model file: "format" is not "{learner.format}"')
    if document.get("version") != VERSION:
        raise InputError(
            f"{path} is a model file of a version other than {VERSION}; update labeldp"
        )
    try:
        return learner.read(document, arrays)
    except _DAMAGE as error:
        where = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{path} is a damaged model file: {where}") from error


def features_document(features: FeatureMap | None) -> Document | None:
    """The feature map of a model as JSON."""
    return None if features is None else features.to_json()


def read_features(document: Any) -> FeatureMap | None:
    """What `features_document` wrote."""
    return None if document is None else FeatureMap.from_json(document)


def checked(document: Any, checks: dict[str, Callable[[Any], bool]]) -> Document:
    """The fields that are named, each as its check wants it."""
    for name, check in checks.items():
        if not check(document[name]):
            raise ValueError(f"{name} is malformed")
    return {name: document[name] for name in checks}


def _arrays(file: Any, path: str | PathLike[str]) -> Arrays:
    try:
        with zipfile.ZipFile(file) as archive:
            if any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist()):
                raise ValueError("it is compressed")
        file.seek(0)
        with np.load(file, allow_pickle=False) as arrays:
            return dict(arrays)
    except _DAMAGE as error:
        raise InputError(f"{path} is not a model file, or a damaged one") from error


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")
