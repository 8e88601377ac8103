"""labeldp: publish regression data whose labels are private.

    source = scan("table.parquet", label="income", label_range=(0, 250_000))
    release = plan(source, epsilon=1, delta=1e-6).release(source)
    release.save("published")
    LinearRegressor().fit(release).predict(new_rows)

Names are imported when first used, so that starting is fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeldp.accounting import ACCOUNTANTS, Facts, FloorMode
    from labeldp.doctor import look
    from labeldp.doctor.inspection import inspect
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
    from labeldp.mechanisms.forecast import Forecast, forecast
    from labeldp.mechanisms.planning import Plan, plan
    from labeldp.release import Release
    from labeldp.signoff.audit import Audit, audit
    from labeldp.signoff.joint import Joint, compose
    from labeldp.signoff.ledger import Ledger
    from labeldp.signoff.verification import Verification, verify
    from labeldp.source import Source, scan
    from labeldp.spark import SparkEngine

_HOMES = {
    "ACCOUNTANTS": "accounting",
    "Audit": "signoff.audit",
    "BagRegressor": "learners",
    "DataError": "errors",
    "Facts": "accounting",
    "FeatureMap": "features",
    "FloorMode": "accounting",
    "Forecast": "mechanisms.forecast",
    "InputError": "errors",
    "Joint": "signoff.joint",
    "LabelDPError": "errors",
    "Ledger": "signoff.ledger",
    "LedgerError": "errors",
    "LabelDPWarning": "errors",
    "LinearRegressor": "learners",
    "LocalEngine": "engines",
    "MissingExtraError": "errors",
    "Plan": "mechanisms.planning",
    "PlanError": "errors",
    "Release": "release",
    "ReleaseError": "errors",
    "Source": "source",
    "SparkEngine": "spark",
    "Verification": "signoff.verification",
    "audit": "signoff.audit",
    "compose": "signoff.joint",
    "forecast": "mechanisms.forecast",
    "inspect": "doctor.inspection",
    "look": "doctor",
    "plan": "mechanisms.planning",
    "scan": "source",
    "verify": "signoff.verification",
}

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


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("labeldp")
    if name not in _HOMES:
        raise AttributeError(f"module 'labeldp' has no attribute {name!r}")
    value = getattr(import_module(f"labeldp.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
