"""The workbench: what mechanisms are made with, on one page, for those here and for others.

It is slow to import. What a declaration is made of (`labeldp.mechanisms`) is not.
"""

from labeldp._random import Randomness
from labeldp.engines import Engine, engine_for
from labeldp.features import Encoded, FeatureMap
from labeldp.mechanisms import WORDS, Request, Shown, number
from labeldp.mechanisms.bags import (
    BagRows,
    Draw,
    Rehearsal,
    check_members,
    check_stable_rows,
    members_table,
)
from labeldp.mechanisms.checks import check_grid, check_label_exponent, check_numbers
from labeldp.mechanisms.floors import (
    Terms,
    check_floor_release,
    floor_mode,
    root_bounds,
    settle_floor,
)
from labeldp.mechanisms.forecast import forecast
from labeldp.mechanisms.label_law import LabelLaw, means
from labeldp.mechanisms.options import Encoding
from labeldp.mechanisms.plan import CONTRADICTION, OTHER_FEATURES, Plan
from labeldp.mechanisms.survey import HEADROOM, Survey, feature_bound, inflation_for, survey
from labeldp.release import (
    AGGREGATES,
    BAGS,
    FEATURES,
    NOISE,
    PUBLIC_WEIGHTS,
    WARNING,
    Claim,
    Drawing,
    FloorOutcome,
    Release,
    aggregate_batch,
    aggregate_schema,
    features_text,
    label_column,
    read_head,
)
from labeldp.source import Source
from labeldp.statistics import (
    Factor,
    FeatureGram,
    Fits,
    GramSum,
    LabelGrid,
    LabelMoments,
    Leverage,
    LeverageScan,
    MomentSum,
    Residual,
    Stack,
    factorise,
    fit_stack,
)
from labeldp.statistics.stacked import bags_at_once, stacked_design

__all__ = [
    "AGGREGATES",
    "BAGS",
    "CONTRADICTION",
    "FEATURES",
    "HEADROOM",
    "NOISE",
    "OTHER_FEATURES",
    "PUBLIC_WEIGHTS",
    "WARNING",
    "WORDS",
    "BagRows",
    "Claim",
    "Draw",
    "Drawing",
    "Encoded",
    "Encoding",
    "Engine",
    "Factor",
    "FeatureGram",
    "FeatureMap",
    "Fits",
    "FloorOutcome",
    "GramSum",
    "LabelGrid",
    "LabelLaw",
    "LabelMoments",
    "Leverage",
    "LeverageScan",
    "MomentSum",
    "Plan",
    "Randomness",
    "Rehearsal",
    "Release",
    "Request",
    "Residual",
    "Shown",
    "Source",
    "Stack",
    "Survey",
    "Terms",
    "aggregate_batch",
    "aggregate_schema",
    "bags_at_once",
    "check_floor_release",
    "check_grid",
    "check_label_exponent",
    "check_members",
    "check_numbers",
    "check_stable_rows",
    "engine_for",
    "factorise",
    "feature_bound",
    "features_text",
    "fit_stack",
    "floor_mode",
    "forecast",
    "inflation_for",
    "label_column",
    "means",
    "members_table",
    "number",
    "read_head",
    "root_bounds",
    "settle_floor",
    "stacked_design",
    "survey",
]
