"""What a learner is: its name, its options, how it learns from a release and how it is read.

A learner declares itself as `LEARNER = Learner(…)` at the end of its module, and the room's
registry names the module. Its fitted `Model` is a plain value that predicts and saves itself; the
command line needs no more. The scikit-learn estimators are a skin over both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import InputError
from labeldp.features import FeatureMap
from labeldp.source import Source

if TYPE_CHECKING:
    from labeldp.engines.protocol import Progress
    from labeldp.release import Release

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Coefficient:
    """One coefficient in original units; `low` and `high` are None where no interval is exact."""

    name: str
    value: float
    low: float | None
    high: float | None


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
    fit: Callable[[Release, Source | None, Any, Progress | None], Model]
    read: Callable[[dict[str, Any], dict[str, NDArray[Any]]], Model]
    """A model from the document and the arrays of its file; any damage is an exception."""
    reads_rows: bool = False
    """Whether it needs the rows of bags, which a release of aggregated features does not name."""


def bag_source(source: Any) -> Source:
    """The table whose rows a release names; refuse anything else."""
    if not isinstance(source, Source):
        raise InputError(
            "the release names rows but does not hold them: pass the source it was made from, "
            "fit(release, source)"
        )
    return source
