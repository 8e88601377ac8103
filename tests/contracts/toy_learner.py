"""A learner from outside the package: it predicts the mean label of single rows, or a guess."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Any

import numpy as np
import pyarrow as pa

from labeldp.learners.protocol import Array, Coefficient, Learner, write


@dataclass(frozen=True)
class ToyOptions:
    seed: int = 0

    def checked(self) -> ToyOptions:
        return self


@dataclass(frozen=True)
class ToyModel:
    options: ToyOptions
    features: Any
    feature_names: tuple[str, ...]
    guess: float

    width = property(lambda self: len(self.feature_names))
    takes_array = False
    coefficients: tuple[Coefficient, ...] = ()
    quality = None

    def predict(self, rows: Any) -> Array:
        return np.full(pa.table(rows).num_rows, self.guess)

    def summary(self, bags: int) -> str:
        return f"a guess from {bags} bags"

    def save(self, path: str | PathLike[str]) -> None:
        write(path, LEARNER, self, {"guess": self.guess})


def _fit(release: Any, _source: Any, options: ToyOptions, _progress: Any) -> ToyModel:
    return ToyModel(options, release.features, release.features.names, 4.25)


def _read(document: dict[str, Any], features: Any, _arrays: Any) -> ToyModel:
    assert features is not None
    return ToyModel(
        ToyOptions(**document["parameters"]), features, features.names, document["guess"]
    )


LEARNER = Learner(name="toy", format="toy.guess", options=ToyOptions, fit=_fit, read=_read)
