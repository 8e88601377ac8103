"""What a learner is: its name, its options, how it learns from a release, and its files.

A learner declares itself as `LEARNER = Learner(…)` at the end of its module, and the room's
registry names the module. Its fitted `Model` is a plain value that predicts and saves itself; the
command line needs no more. The scikit-learn estimators are a skin over both.

A fitted model is one file: no pickle, floats exact, written whole or not at all. It is a JSON
document and, where it has arrays, a NumPy .npz that holds the document's text as the bytes of
`header`. The .npz is stored without compression, so it cannot unfold into more than it is.
`numpy.load(path, allow_pickle=False)` opens it anywhere.
"""

from __future__ import annotations

import hashlib
import json
import os
import secrets
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labeldp.data.source import Source
from labeldp.errors import InputError, LabelDPError, ReleaseError
from labeldp.features.feature_map import FeatureMap
from labeldp.io_util import (
    Check,
    is_number,
    json_digest,
    list_of,
    parse_json,
    path_problem,
    refuse_existing,
)
from labeldp.release.files import WANTS_TABLE

if TYPE_CHECKING:
    from labeldp.common.pictures import Picture
    from labeldp.learners.quality import Quality
    from labeldp.learners.summary import Summary
    from labeldp.passes.protocol import Progress

VERSION = 1

Array = NDArray[np.float64]
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


@dataclass(frozen=True)
class Coefficient:
    """One coefficient in original units; what is not known of it is None.

    `low` and `high` are an interval for the coefficient of the fit with all labels, where one is
    exact: it covers what privacy adds, not the sampling of rows from a population.
    """

    name: str
    value: float
    low: float | None
    high: float | None
    privacy_error: float | None = None
    """Standard error from privacy: of the value as an estimate of the fit with all labels."""
    sampling_error: float | None = None
    """Standard error of that fit as an estimate for the population, for errors of one variance."""
    total_error: float | None = None
    """Both together."""


class Model(Protocol):
    """What was learnt: a frozen dataclass of public values."""

    @property
    def options(self) -> Any:
        """How it was fitted."""

    @property
    def features(self) -> FeatureMap | None:
        """How raw rows become its columns; None if it was fitted on plain rows."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of its columns, if they have any."""

    @property
    def width(self) -> int:
        """Number of its columns."""

    @property
    def takes_array(self) -> bool:
        """Whether it predicts the rows of an array, not raw rows."""

    @property
    def coefficients(self) -> tuple[Coefficient, ...]:
        """In original units; none if the model is not linear."""

    @property
    def quality(self) -> Quality | None:
        """What the release shows of its predictions, if it can be told."""

    def predict(self, rows: Any) -> Array:
        """Predictions for raw rows or, without a feature map, for an array."""

    def summary(self, bags: int) -> str:
        """One line for people about a fit on so many bags."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write it as one file, atomically and exactly."""


@dataclass(frozen=True)
class Learner:
    """A learner as the command line and `load_model` see it."""

    name: str
    format: str
    """The first field of its files."""
    options: type[Any]
    """A frozen dataclass; every field has a default."""
    fit: Callable[[Any, Source | None, Any, Progress | None], Model]
    """From a release, or a list of them if it `takes_several`."""
    read: Callable[[Document, FeatureMap | None, Arrays], Model]
    """A model from the document, its feature map and the arrays of its file; any damage is an
    exception."""
    takes_several: bool = False
    summarise: Callable[[Any], Summary] | None = None
    """What a model of its says for people, if that is more than a line."""
    pictures: Callable[[Any], list[Picture]] | None = None
    """What of a model of its can be shown, if anything."""
    reads_rows: bool = False
    """Whether it needs the rows of bags, which a release of aggregated features does not name."""


@contextmanager
def sound() -> Iterator[None]:
    """Whatever an altered certificate or table brings about while learning, in one line."""
    try:
        yield
    except LabelDPError:
        raise
    except (LookupError, TypeError, ValueError, ArithmeticError) as problem:
        raise ReleaseError(
            "the release contradicts itself, so nothing can be learnt from it; verify it, and get "
            "the original"
        ) from problem


def bag_source(source: Any) -> Source:
    """The table whose rows a release names; refuse anything else."""
    if not isinstance(source, Source):
        raise InputError(WANTS_TABLE)
    return source


def write(
    path: str | PathLike[str],
    learner: Learner,
    model: Model,
    fields: Document,
    arrays: Arrays | None = None,
) -> None:
    """Write a model and what its learner says of it, by a new file beside `path` and a rename."""
    features = None if model.features is None else model.features.to_json()
    known = {"parameters": asdict(model.options), "features": features}
    document = {"format": learner.format, "version": VERSION, **known, **fields}
    try:  # floats are written by repr: exact
        document["seal"] = _seal(document, arrays or {})
        text = json.dumps(document, allow_nan=False, indent=None if arrays else 1)
    except ValueError as error:
        raise InputError("the model holds a number that is not finite; fit it again") from error
    target = Path(path)
    refuse_existing(target)
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


_WRITTEN = "name one that a fitted model was written to"


def read(path: str | PathLike[str]) -> tuple[Document, Arrays]:
    """The document and the arrays in a file."""
    reason = path_problem(Path(path))
    if reason is not None:
        raise InputError(f"cannot read a model from {path}: {reason}")
    try:
        with open(path, "rb") as file:
            zipped = file.read(2) == b"PK"
            file.seek(0)
            arrays = _arrays(file, path) if zipped else {}
            text = arrays.pop("header", np.empty(0)).tobytes() if zipped else file.read()
    except OSError as error:
        raise InputError(
            f"cannot read a model from {path}: {error.strerror}; {_WRITTEN}"
        ) from error
    try:
        document = parse_json(text.decode())
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not a model file: it is not JSON; {_WRITTEN}") from error
    return document if isinstance(document, dict) else {}, arrays


def parse(learner: Learner, document: Document, arrays: Arrays, path: str | PathLike[str]) -> Model:
    """The model in what `read` found; anything out of place is an InputError."""
    if document.get("format") != learner.format:
        raise InputError(
            f'{path} is not a model file: "format" is not "{learner.format}"; {_WRITTEN}'
        )
    if document.get("version") != VERSION:
        raise InputError(
            f"{path} is a model file of a version other than {VERSION}; update labeldp"
        )
    try:
        described = document["features"]
        features = None if described is None else FeatureMap.from_json(described)
        model = learner.read(document, features, arrays)
        said, seal = document["seal"], _seal(document, arrays)
    except _DAMAGE as error:
        where = f"no field {error}" if isinstance(error, KeyError) else str(error)
        raise InputError(f"{path} is a damaged model file: {where}") from error
    if said != seal:
        raise InputError(f"{path} is an altered model file (its seal does not match); fit it again")
    return model


def _seal(document: Document, arrays: Arrays) -> str:
    """A checksum of all but itself: a model predicts what it was fitted to, or not at all."""
    body = {name: value for name, value in document.items() if name != "seal"}
    numbers = {
        name: [str(array.dtype), array.shape, hashlib.sha256(array.tobytes()).hexdigest()]
        for name, array in arrays.items()
    }
    return json_digest([body, numbers])


def checked(document: Any, checks: dict[str, Check]) -> Document:
    """The fields that are named, each as its check wants it."""
    for name, check in checks.items():
        if not check(document[name]):
            raise ValueError(f"{name} is malformed")
    return {name: document[name] for name in checks}


def is_range(value: Any) -> bool:
    """Two numbers."""
    return list_of(is_number)(value) and len(value) == 2


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
