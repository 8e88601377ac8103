from labeldp.accounting import ACCOUNTANTS as ACCOUNTANTS, Facts as Facts, FloorMode as FloorMode
from labeldp.doctor import inspect as inspect, look as look
from labeldp.engines import LocalEngine as LocalEngine
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
from labeldp.features import FeatureMap as FeatureMap
from labeldp.learners import BagRegressor as BagRegressor, LinearRegressor as LinearRegressor
from labeldp.mechanisms import Forecast as Forecast, Plan as Plan, forecast as forecast
from labeldp.planning import plan as plan
from labeldp.release import Release as Release
from labeldp.signoff import (
    Audit as Audit,
    Joint as Joint,
    Ledger as Ledger,
    Verification as Verification,
    audit as audit,
    compose as compose,
    verify as verify,
)
from labeldp.source import Source as Source, scan as scan
from labeldp.spark import SparkEngine as SparkEngine
