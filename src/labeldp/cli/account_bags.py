"""labeldp account, for the mechanisms that draw bags: what to ask, and how to print it.

An answer without --bag-size is the smallest private bag. With it, `conditional` is ε at the δ
asked for and δ at the ε asked for when the row is in a bag; `unconditional`, with --bags,
counts the chance mk/n of that; `max_bags` is the most bags within the budget over the draw.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from labeldp.accounting import (
    Answer,
    BagDraw,
    Curve,
    Facts,
    Gaussian,
    Nothing,
    RandomWeights,
    SizedBag,
    Sketch,
    Theorem2,
    Theorem3,
    invert,
    membership,
    spans_labels,
)
from labeldp.errors import InputError, PlanError

Found = dict[str, Any]
_SCALED = 2.0

_USES = {
    "sampled-wtd-flag": (
        "residual_ms",
        "bags",
        "bag_size",
        "max_leverage",
        "leverage_factor",
        "features",
        "feature_bound",
        "min_eigenvalue",
    ),
    "sampled-noisy-wtd-lag": ("bags", "bag_size", "noisy_fraction", "noise_std"),
    "naive-flag": ("bags", "bag_size"),
    "naive-lag": ("bags", "bag_size"),
}


@dataclass(frozen=True)
class Request:
    """What was asked; `given` holds every option, None where it was not."""

    mechanism: str
    rows: int
    label_range: tuple[float, float]
    epsilon: float
    delta: float
    centred: bool
    given: dict[str, Any]

    def allow(self, *names: str) -> None:
        """Refuse options the mechanism does not use."""
        for name, value in self.given.items():
            if value is not None and name not in names:
                raise InputError(
                    f"{_option(name)} does not apply to {self.mechanism}: leave it out"
                )

    def need(self, name: str) -> Any:
        """An option the mechanism cannot do without."""
        if self.given[name] is None:
            raise InputError(f"{self.mechanism} needs {_option(name)}")
        return self.given[name]

    @property
    def chance(self) -> float | None:
        """mk/n, if bags and their size are given."""
        bags, bag_size = self.given["bags"], self.given["bag_size"]
        if bags is None or bag_size is None:
            return None
        return membership(self.rows, bags, bag_size)

    def over(self, curve: Curve) -> BagDraw:
        """The same over the draw of the bags that are asked about, or of one."""
        return BagDraw(curve, self.rows, self.given["bag_size"], self.given["bags"] or 1)


def document(request: Request) -> Found:
    """The answer as one JSON document."""
    uses = _USES[request.mechanism]
    request.allow(*uses)
    bag_size = request.given["bag_size"]
    if bag_size is None and request.given["bags"] is not None:
        raise InputError("--bags needs --bag-size: the chance of being in a bag depends on both")
    if bag_size is not None:
        membership(request.rows, request.given["bags"] or 1, bag_size)
    answers: Found = {}
    if request.mechanism == "sampled-wtd-flag":
        answers = {"accountants": _sampled_wtd_flag(request)}
    elif request.mechanism == "sampled-noisy-wtd-lag":
        answers = {"accountants": _noisy_wtd_lag(request)}
    else:
        answers = {"accountants": {}, "reason": _naive(request)}
    return {
        "mechanism": request.mechanism,
        "rows": request.rows,
        "label_range": list(request.label_range),
        "epsilon": request.epsilon,
        "delta": request.delta,
        **{name: request.given[name] for name in uses},
        **answers,
    }


def _sampled_wtd_flag(request: Request) -> Found:
    given = request.given
    residual_ms, bag_size = request.need("residual_ms"), given["bag_size"]
    if (given["leverage_factor"] or given["max_leverage"]) and given["features"] is None:
        raise InputError("--leverage-factor and --max-leverage need --features")
    if given["leverage_factor"] and given["max_leverage"]:
        raise InputError("--leverage-factor and --max-leverage say the same: give one of them")
    if given["max_leverage"] and bag_size is None:
        raise InputError("--max-leverage is of bags of one size: give --bag-size with it")
    answers = {"paper": _theorem2(request)}
    known = (given["leverage_factor"] or given["max_leverage"]) is not None
    for name in ("exact-worst-case", "exact")[: 1 + known]:
        answers[name] = _exact_flag(request, residual_ms, name == "exact")
    return answers


def _exact_flag(request: Request, residual_ms: float, public: bool) -> Found:
    given, bag_size = request.given, request.given["bag_size"]
    features, factor = given["features"], given["leverage_factor"] if public else None
    budget = request.epsilon, request.delta
    if bag_size is None:
        law = SizedBag(
            request.label_range, residual_ms, 1, features, factor, centred=request.centred
        )
        return _smallest(Answer(invert.limit(law, "bag_size", *budget)), request)
    if features is not None and (hopeless := spans_labels(bag_size, features)):
        found = _priced(request, Nothing()) | {"max_bags": 0, "reason": hopeless}
        if request.chance is not None:
            found["unconditional"]["delta"] = request.chance
        return found
    leverage = given["max_leverage"] if public else None
    if factor is not None:
        leverage = min(1.0, factor * features / bag_size)
    facts = Facts(bag_size, request.label_range, features, leverage, request.centred)
    return _priced(request, Sketch(facts, 1, residual_ms * bag_size))


def _theorem2(request: Request) -> Found:
    given = request.given
    names = ("min_eigenvalue", "feature_bound", "features")
    missing = [_option(name) for name in names if given[name] is None]
    if missing:
        return {"reason": f"Theorem 2 needs {', '.join(missing)}"}
    rows, label_range, bag_size = request.rows, request.label_range, given["bag_size"]
    promise = rows, label_range, given["min_eigenvalue"], given["feature_bound"], given["features"]
    if bag_size is None:
        smallest = Theorem2(*promise).min_bag_size(request.epsilon, request.delta)
        return _smallest(smallest, request)
    return _by_theorem(request, Theorem2(*promise, bag_size))


def _noisy_wtd_lag(request: Request) -> Found:
    request.need("noisy_fraction")
    budget = request.epsilon, request.delta
    realised: Found = {"target_mu": invert.limit(Gaussian(1.0), "mu", *budget)}
    if request.given["bag_size"] is None:
        paper, exact = _smallest_noisy(request)
        return {"paper": paper, "exact": exact | {"realised": realised}}
    if request.chance is not None:
        over = request.over(Gaussian(1.0))
        realised["unconditional_target_mu"] = invert.limit(over, "mu", *budget)
    paper, a_priori = _priced_noisy(request)
    return {"paper": paper, "exact": {"a_priori": a_priori, "realised": realised}}


def _smallest_noisy(request: Request) -> tuple[Found, Found]:
    fraction, std = request.given["noisy_fraction"], _noise_std(request)
    labels = request.label_range
    paper = _limit(Theorem3(labels, fraction, noise_std=std), "bag_size", request)
    exact = _limit(RandomWeights(1, labels, fraction, std, request.rows), "bag_size", request)
    return _smallest(paper, request), _smallest(exact, request)


def _priced_noisy(request: Request) -> tuple[Found, Found]:
    fraction, std = request.given["noisy_fraction"], _noise_std(request)
    labels, size, bags = request.label_range, request.given["bag_size"], request.given["bags"] or 1
    law = RandomWeights(size, labels, fraction, std, request.rows)
    paper = _by_theorem(request, Theorem3(labels, fraction, size, bags, std))
    needs = {f"min_{name}": _limit(law, name, request).value for name in _NOISE}
    return paper, _priced(request, law) | needs


_NOISE = ("noise_std", "noisy_fraction")


def _limit(law: Curve, name: str, request: Request) -> Answer:
    """A limit, or why there is none."""
    try:
        return Answer(invert.limit(law, name, request.epsilon, request.delta))
    except PlanError as problem:
        return Answer(None, str(problem))


def _noise_std(request: Request) -> float:
    """The noise deviation; the paper's 1 is meant for labels scaled to a width of 2."""
    given: float | None = request.given["noise_std"]
    low, high = request.label_range
    if given is None and high - low > _SCALED:
        raise InputError(
            f"sampled-noisy-wtd-lag needs --noise-std, in the units of labels from {low:g} to "
            f"{high:g}; the paper's 1 is for labels scaled to -1 … 1"
        )
    return 1.0 if given is None else given


def _naive(request: Request) -> str:
    chance = request.chance
    size = "mk/n" if chance is None else f"mk/n = {chance:.6g}"
    return (
        f"{request.mechanism} has no weights and no noise: a bag with the changed label gives it "
        f"away for certain, so δ is {size} at best at any ε; it is never private"
    )


def _smallest(answer: Answer, request: Request) -> Found:
    """The smallest bag, or why there is none in this table."""
    if answer.value is None:
        return {"min_bag_size": None, "reason": answer.reason}
    found: Found = {"min_bag_size": int(answer.value)}
    if answer.value > request.rows:
        found["reason"] = f"more than the {request.rows:,} rows of the table"
    else:
        found["max_bags"] = request.rows // int(answer.value)
    return found


def _priced(request: Request, law: Curve) -> Found:
    """ε and δ when the row is in a bag, and over the draw."""

    def both(curve: Curve, delta: float) -> Found:
        epsilon = invert.epsilon(curve, request.delta)
        return {"epsilon": epsilon if math.isfinite(epsilon) else None, "delta": delta}

    given = law.delta(request.epsilon)
    most = invert.limit(request.over(law), "bags", request.epsilon, request.delta)
    found: Found = {"conditional": both(law, given.upper), "max_bags": most}
    if request.chance is not None:
        over = both(request.over(law), given.times(request.chance).upper)
        found["unconditional"] = {"chance": request.chance} | over
    if found["conditional"]["epsilon"] is None:
        found["reason"] = f"no ε is enough for δ = {request.delta:g} when the row is in a bag"
    return found


def _by_theorem(request: Request, law: Theorem2 | Theorem3) -> Found:
    found = _priced(request, law)
    given = law.answer(request.epsilon)
    if request.chance is not None:
        found["unconditional"]["delta"] = (given.value or 1.0) * request.chance
    reason = law.epsilon(request.delta).reason or given.reason
    return found | ({"reason": reason} if reason else {})


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
