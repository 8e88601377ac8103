"""Learners that read a release.

    LinearRegressor   least squares, ridge and bounded norm, with exact intervals
    BagRegressor      a neural network on weighted bags; needs the extra "torch" to fit
    WeightedBags      what it learns from: rows with weights, grouped, one label a group
    load_model        what either has saved, without scikit-learn

Names are imported when first used: scikit-learn by the two estimators alone, torch only when a
network is fitted. A learner is a module that declares itself (`protocol.Learner`) and its line in
`LEARNERS`. Other rooms import from this page alone.
"""

from __future__ import annotations

from importlib import import_module
from os import PathLike
from typing import TYPE_CHECKING

from labeldp.common import checked, late_names

if TYPE_CHECKING:
    from labeldp.learners.afterwards import estimated
    from labeldp.learners.bags import WeightedBags
    from labeldp.learners.estimators import BagRegressor, LinearRegressor
    from labeldp.learners.protocol import Coefficient, Learner, Model
    from labeldp.learners.quality import Quality
    from labeldp.learners.summary import Summary

__all__ = [
    "LEARNERS",
    "BagRegressor",
    "Coefficient",
    "Learner",
    "LinearRegressor",
    "Model",
    "Quality",
    "Summary",
    "WeightedBags",
    "estimated",
    "find_learner",
    "learners",
    "load_model",
]

LEARNERS = {
    "linear": "labeldp.learners.linear",
    "neural": "labeldp.learners.network",
}
"""Where each learner declares itself, by its name on the command line."""


def find_learner(name: str) -> Learner:
    """The learner of this name."""
    from labeldp.errors import InputError

    if name not in LEARNERS:
        raise InputError(f"the model {name!r} is unknown; choose {' or '.join(LEARNERS)}")
    learner: Learner = import_module(LEARNERS[name]).LEARNER
    return learner


def learners() -> list[Learner]:
    """All learners."""
    return [find_learner(name) for name in LEARNERS]


@checked
def load_model(path: str | PathLike[str]) -> Model:
    """Read a model written by any learner's `save`."""
    from labeldp.learners import protocol

    document, arrays = protocol.read(path)
    known = learners()
    fitting = [each for each in known if each.format == document.get("format")]
    return protocol.parse((fitting or known)[0], document, arrays, path)


late_names(
    __name__,
    afterwards="estimated",
    bags="WeightedBags",
    estimators="BagRegressor LinearRegressor",
    protocol="Coefficient Learner Model",
    quality="Quality",
    summary="Summary",
)
