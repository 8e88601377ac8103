"""Learners that read a release.

    LinearRegressor   least squares, ridge and bounded norm, with exact intervals
    BagRegressor      a neural network on weighted bags; needs the extra "torch" to fit
    WeightedBags      what it learns from: rows with weights, grouped, one label a group

The last two are imported when first used, and torch only when a network is fitted.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING, Any

from labeldp.learners.linear import Coefficient, LinearRegressor

if TYPE_CHECKING:
    from labeldp.learners.bags import WeightedBags
    from labeldp.learners.neural import BagRegressor

__all__ = ["BagRegressor", "Coefficient", "LinearRegressor", "WeightedBags", "load_model"]

_HOMES = {"BagRegressor": "neural", "WeightedBags": "bags"}


def load_model(path: str | PathLike[str]) -> LinearRegressor | BagRegressor:
    """Read a model written by either learner's `save`."""
    with suppress(OSError), open(path, "rb") as file:  # a missing file is the reader's to report
        if file.read(2) == b"PK":  # a network is an .npz, which is a zip file
            from labeldp.learners.neural import BagRegressor

            return BagRegressor.load(path)
    return LinearRegressor.load(path)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'labeldp.learners' has no attribute {name!r}")
    value = getattr(import_module(f"labeldp.learners.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
