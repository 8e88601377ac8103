"""Learners that read a release.

    LinearRegressor   least squares, ridge and bounded norm, with exact intervals
    BagRegressor      a neural network on weighted bags; needs the extra "torch" to fit
    WeightedBags      what it learns from: rows with weights, grouped, one label a group
    load_model        what either has saved, without scikit-learn

Names are imported when first used: scikit-learn by the two estimators alone, torch only when a
network is fitted. A learner is a module that declares itself (`protocol.Learner`) and its line in
`registry.LEARNERS`. Other rooms import from this page alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp.common import late_names

if TYPE_CHECKING:
    from labeldp.learners.afterwards import estimated
    from labeldp.learners.bags import WeightedBags
    from labeldp.learners.estimators import BagRegressor, LinearRegressor
    from labeldp.learners.protocol import Coefficient, Learner, Model
    from labeldp.learners.quality import Quality
    from labeldp.learners.registry import LEARNERS, find_learner, learners, load_model
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

late_names(
    __name__,
    afterwards="estimated",
    bags="WeightedBags",
    estimators="BagRegressor LinearRegressor",
    protocol="Coefficient Learner Model",
    quality="Quality",
    registry="LEARNERS find_learner learners load_model",
    summary="Summary",
)
