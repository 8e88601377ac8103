"""labeldp: publish regression data whose labels are private.

    source = scan("table.parquet", label="income", label_range=(0, 250_000))
    release = plan(source, epsilon=1, delta=1e-6).release(source)
    release.save("published")
    LinearRegressor().fit(release).predict(new_rows)

Names are imported when first used, so that starting is fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from labeldp.accounting.sketch import (
        DatasetBounds as DatasetBounds,
        SketchProfile as SketchProfile,
    )
    from labeldp.data.source import Source as Source, scan as scan
    from labeldp.errors import (
        DataError as DataError,
        InputError as InputError,
        LabelDPError as LabelDPError,
        LabelDPWarning as LabelDPWarning,
        LedgerError as LedgerError,
        MissingExtraError as MissingExtraError,
        PlanError as PlanError,
        ReleaseError as ReleaseError,
    )
    from labeldp.features.feature_map import FeatureMap as FeatureMap
    from labeldp.learners.api import (
        BagRegressor as BagRegressor,
        LinearRegressor as LinearRegressor,
        LogisticRegression as LogisticRegression,
        PoissonRegressor as PoissonRegressor,
    )
    from labeldp.ledger.compose import Joint as Joint, compose as compose
    from labeldp.ledger.ledger import Ledger as Ledger
    from labeldp.mechanisms.forecast import Forecast as Forecast
    from labeldp.passes.engine import LocalEngine as LocalEngine
    from labeldp.planning import Plan as Plan, plan as plan
    from labeldp.private_regression import PrivateLinearRegression as PrivateLinearRegression
    from labeldp.profile import look as look
    from labeldp.releases.files import Release as Release
    from labeldp.shortcuts import release as release, report as report
    from labeldp.spark.engine import SparkEngine as SparkEngine
    from labeldp.verification import Verification as Verification, verify as verify

_NAMES = {
    "accounting.sketch": ["DatasetBounds", "SketchProfile"],
    "data.source": ["Source", "scan"],
    "errors": [
        "DataError",
        "InputError",
        "LabelDPError",
        "LabelDPWarning",
        "LedgerError",
        "MissingExtraError",
        "PlanError",
        "ReleaseError",
    ],
    "features.feature_map": ["FeatureMap"],
    "learners.api": [
        "BagRegressor",
        "LinearRegressor",
        "LogisticRegression",
        "PoissonRegressor",
    ],
    "ledger.compose": ["Joint", "compose"],
    "ledger.ledger": ["Ledger"],
    "mechanisms.forecast": ["Forecast"],
    "passes.engine": ["LocalEngine"],
    "planning": ["Plan", "plan"],
    "private_regression": ["PrivateLinearRegression"],
    "profile": ["look"],
    "releases.files": ["Release"],
    "shortcuts": ["release", "report"],
    "spark.engine": ["SparkEngine"],
    "verification": ["Verification", "verify"],
}
_MODULES = {name: f"labeldp.{module}" for module, names in _NAMES.items() for name in names}
__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value = getattr(import_module(_MODULES[name]), name)
        globals()[name] = value
        return value
    if name == "__version__":
        from importlib.metadata import version

        return version("labeldp")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
