"""What sampled-wtd-FLAg costs, from public quantities alone: `labeldp account`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labeldp.accounting.bounds import Answer
from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.privacy_profile import NonPrivate
from labeldp.accounting.sketch import BagOfSizeProfile, DatasetBounds, SketchProfile, spans_labels
from labeldp.accounting.theorems import Theorem2
from labeldp.errors import InputError
from labeldp.mechanisms import account

if TYPE_CHECKING:
    from labeldp.mechanisms.sampled_wtd_flag import SampledWtdFlagQuestion

Found = dict[str, Any]
_OWN = (
    "residual_ms",
    "bags",
    "bag_size",
    "max_leverage",
    "leverage_factor",
    "features",
    "feature_bound",
    "min_eigenvalue",
)


def answer(mechanism: str, asked: SampledWtdFlagQuestion) -> Found:
    """The smallest private bag, or the price of bags of one size."""
    account.check_bags(asked)
    residual_ms = account.need(mechanism, asked, "residual_ms")
    known = (asked.leverage_factor or asked.max_leverage) is not None
    if known and asked.features is None:
        raise InputError("`leverage_factor` and `max_leverage` need `features`")
    if asked.leverage_factor and asked.max_leverage:
        raise InputError("`leverage_factor` and `max_leverage` say the same: give one of them")
    if asked.max_leverage and asked.bag_size is None:
        raise InputError("`max_leverage` is of bags of one size: give `bag_size` with it")
    found = {"paper": _theorem2(asked)}
    for name in ("exact-worst-case", "exact")[: 1 + known]:
        found[name] = _exact(asked, residual_ms, public=name == "exact")
    return account.document(mechanism, asked, _OWN, {"accountants": found})


def _exact(asked: SampledWtdFlagQuestion, residual_ms: float, *, public: bool) -> Found:
    features, size = asked.features, asked.bag_size
    factor = asked.leverage_factor if public else None
    if size is None:
        law = BagOfSizeProfile(
            asked.label_range, residual_ms, 1, features, factor, centred=asked.centred
        )
        return account.smallest(asked, Answer(calibrate(law, "bag_size", *asked.budget)))
    if features is not None and (hopeless := spans_labels(size, features)):
        return _hopeless(asked, hopeless)
    leverage = asked.max_leverage if public else None
    if factor is not None and features is not None:
        leverage = min(1.0, factor * features / size)
    facts = DatasetBounds(size, asked.label_range, features, leverage, asked.centred)
    return account.priced(asked, SketchProfile(facts, 1, residual_ms * size))


def _hopeless(asked: SampledWtdFlagQuestion, reason: str) -> Found:
    found = account.priced(asked, NonPrivate()) | {"max_bags": 0, "reason": reason}
    if "unconditional" in found:
        found["unconditional"]["delta"] = account.chance(asked)
    return found


def _theorem2(asked: SampledWtdFlagQuestion) -> Found:
    eigenvalue, bound, features = asked.min_eigenvalue, asked.feature_bound, asked.features
    if eigenvalue is None or bound is None or features is None:
        names = ("min_eigenvalue", "feature_bound", "features")
        missing = [f"`{name}`" for name in names if getattr(asked, name) is None]
        return {"reason": f"Theorem 2 needs {', '.join(missing)}"}
    law = Theorem2(asked.rows, asked.label_range, eigenvalue, bound, features, asked.bag_size or 2)
    if asked.bag_size is None:
        return account.smallest(asked, law.min_bag_size(*asked.budget))
    return account.priced_by_theorem(asked, law)
