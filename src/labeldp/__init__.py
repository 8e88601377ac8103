"""labeldp: publish regression data whose labels are private.

    source = scan("table.parquet", label="income", label_range=(0, 250_000))
    release = plan(source, epsilon=1, delta=1e-6).release(source)
    release.save("published")
    LinearRegressor().fit(release).predict(new_rows)

Names are imported when first used, so that starting is fast. A room is entered by its front page:
what is not offered there is its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp.common import late_names

if TYPE_CHECKING:
    from labeldp.accounting import ACCOUNTANTS, Facts, FloorMode
    from labeldp.doctor import inspect, look
    from labeldp.engines import LocalEngine
    from labeldp.errors import (
        DataError,
        InputError,
        LabelDPError,
        LabelDPWarning,
        LedgerError,
        MissingExtraError,
        PlanError,
        ReleaseError,
    )
    from labeldp.features import FeatureMap
    from labeldp.learners import BagRegressor, LinearRegressor
    from labeldp.mechanisms import Forecast, Plan, forecast, plan
    from labeldp.release import Release
    from labeldp.signoff import Audit, Joint, Ledger, Verification, audit, compose, verify
    from labeldp.source import Source, scan
    from labeldp.spark import SparkEngine

__all__ = [
    "ACCOUNTANTS",
    "Audit",
    "BagRegressor",
    "DataError",
    "Facts",
    "FeatureMap",
    "FloorMode",
    "Forecast",
    "InputError",
    "Joint",
    "LabelDPError",
    "LabelDPWarning",
    "Ledger",
    "LedgerError",
    "LinearRegressor",
    "LocalEngine",
    "MissingExtraError",
    "Plan",
    "PlanError",
    "Release",
    "ReleaseError",
    "Source",
    "SparkEngine",
    "Verification",
    "audit",
    "compose",
    "forecast",
    "inspect",
    "look",
    "plan",
    "scan",
    "verify",
]

late_names(
    __name__,
    accounting="ACCOUNTANTS Facts FloorMode",
    doctor="inspect look",
    engines="LocalEngine",
    errors=(
        "DataError InputError LabelDPError LabelDPWarning LedgerError MissingExtraError PlanError "
        "ReleaseError"
    ),
    features="FeatureMap",
    learners="BagRegressor LinearRegressor",
    mechanisms="Forecast Plan forecast plan",
    release="Release",
    signoff="Audit Joint Ledger Verification audit compose verify",
    source="Source scan",
    spark="SparkEngine",
)


def __getattr__(name: str) -> str:
    """The version; every other name comes from its room."""
    if name != "__version__":
        raise AttributeError(f"module 'labeldp' has no attribute {name!r}")
    from importlib.metadata import version

    return version("labeldp")
