"""Learners that read a release.

    LinearRegressor   least squares, ridge and bounded norm, with exact intervals
    BagRegressor      a neural network on weighted bags; needs the extra "torch" to fit
    WeightedBags      what it learns from: rows with weights, grouped, one label a group

The last two are imported when first used, and torch only when a network is fitted.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from labeldp.learners.linear import Coefficient, LinearRegressor

if TYPE_CHECKING:
    from labeldp.learners.bags import WeightedBags
    from labeldp.learners.neural import BagRegressor

__all__ = ["BagRegressor", "Coefficient", "LinearRegressor", "WeightedBags"]

_HOMES = {"BagRegressor": "neural", "WeightedBags": "bags"}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'labeldp.learners' has no attribute {name!r}")
    value = getattr(import_module(f"labeldp.learners.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
