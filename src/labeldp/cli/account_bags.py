"""labeldp account, for the mechanisms that draw bags: what to ask, and how to print it.

An answer without --bag-size is the smallest private bag. With it, `conditional` is ε at the δ
asked for and δ at the ε asked for when the row is in a bag; `unconditional`, with --bags,
counts the chance mk/n of that; `max_bags` is the most bags within the budget over the draw.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from labeldp.accounting import noisy_wtd_lag, paper_bags, sampled_wtd_flag
from labeldp.accounting.paper import Answer
from labeldp.accounting.wtd_flag import Facts
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
        return sampled_wtd_flag.membership(self.rows, bags, bag_size)


def document(request: Request) -> Found:
    """The answer as one JSON document."""
    uses = _USES[request.mechanism]
    request.allow(*uses)
    bag_size = request.given["bag_size"]
    if bag_size is None and request.given["bags"] is not None:
        raise InputError("--bags needs --bag-size: the chance of being in a bag depends on both")
    if bag_size is not None:
        sampled_wtd_flag.membership(request.rows, request.given["bags"] or 1, bag_size)
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
    if bag_size is None:
        found = sampled_wtd_flag.min_bag_size(
            request.label_range,
            residual_ms,
            request.epsilon,
            request.delta,
            features=features,
            leverage_factor=factor,
            centred=request.centred,
        )
        return _smallest(Answer(found), request)
    if features is not None and (hopeless := sampled_wtd_flag.spans_labels(bag_size, features)):
        return _priced(request, lambda _: None, lambda _: None, 0) | {"reason": hopeless}
    leverage = given["max_leverage"] if public else None
    if factor is not None:
        leverage = min(1.0, factor * features / bag_size)
    facts = Facts(bag_size, request.label_range, features, leverage, request.centred)
    floor, budget = residual_ms * bag_size, (request.epsilon, request.delta)
    return _priced(
        request,
        lambda c: sampled_wtd_flag.epsilon(facts, floor, request.delta, chance=c),
        lambda c: sampled_wtd_flag.delta(facts, floor, request.epsilon, chance=c).upper,
        sampled_wtd_flag.max_bags(facts, request.rows, floor, *budget),
    )


def _theorem2(request: Request) -> Found:
    given = request.given
    names = ("min_eigenvalue", "feature_bound", "features")
    missing = [_option(name) for name in names if given[name] is None]
    if missing:
        return {"reason": f"Theorem 2 needs {', '.join(missing)}"}
    rows, label_range, bag_size = request.rows, request.label_range, given["bag_size"]
    promise = rows, label_range, given["min_eigenvalue"], given["feature_bound"], given["features"]
    if bag_size is None:
        smallest = paper_bags.theorem2_min_bag_size(*promise, request.epsilon, request.delta)
        return _smallest(smallest, request)
    return _by_theorem(
        request,
        lambda delta: paper_bags.theorem2_epsilon(*promise, bag_size, delta),
        paper_bags.theorem2_delta(*promise, bag_size, request.epsilon),
    )


def _noisy_wtd_lag(request: Request) -> Found:
    request.need("noisy_fraction")
    realised: Found = {"target_mu": noisy_wtd_lag.target_mu(request.epsilon, request.delta)}
    if request.given["bag_size"] is None:
        paper, exact = _smallest_noisy(request)
        return {"paper": paper, "exact": exact | {"realised": realised}}
    if request.chance is not None:
        realised["unconditional_target_mu"] = noisy_wtd_lag.target_mu(
            request.epsilon, request.delta, request.chance
        )
    paper, a_priori = _priced_noisy(request)
    return {"paper": paper, "exact": {"a_priori": a_priori, "realised": realised}}


def _smallest_noisy(request: Request) -> tuple[Found, Found]:
    fraction, std = request.given["noisy_fraction"], _noise_std(request)
    labels, budget = request.label_range, (request.epsilon, request.delta)
    paper = paper_bags.theorem3_min_bag_size(labels, fraction, *budget, noise_std=std)
    try:
        size = noisy_wtd_lag.min_bag_size(labels, fraction, *budget, std, request.rows)
        exact = _smallest(Answer(size), request)
    except PlanError as problem:
        exact = _smallest(Answer(None, str(problem)), request)
    return _smallest(paper, request), exact


def _priced_noisy(request: Request) -> tuple[Found, Found]:
    fraction, std = request.given["noisy_fraction"], _noise_std(request)
    labels, size, bags = request.label_range, request.given["bag_size"], request.given["bags"] or 1
    facts = noisy_wtd_lag.Facts(size, labels, fraction, std, request.rows)
    paper = _by_theorem(
        request,
        lambda delta: paper_bags.theorem3_epsilon(labels, fraction, size, delta, bags, std),
        paper_bags.theorem3_delta(labels, fraction, size, request.epsilon, bags, std),
    )
    a_priori = _priced(
        request,
        lambda chance: noisy_wtd_lag.epsilon(facts, request.delta, chance),
        lambda chance: noisy_wtd_lag.delta(facts, request.epsilon, chance).upper,
        noisy_wtd_lag.max_bags(facts, request.epsilon, request.delta),
    )
    budget = (request.epsilon, request.delta)
    a_priori["min_noise_std"] = _found(noisy_wtd_lag.min_noise_std, facts, *budget)
    a_priori["min_noisy_fraction"] = _found(noisy_wtd_lag.min_noisy_fraction, facts, *budget)
    return paper, a_priori


def _found(solve: Callable[..., float], *arguments: Any) -> float | None:
    """An answer, or None where there is none."""
    try:
        return solve(*arguments)
    except PlanError:
        return None


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


def _priced(
    request: Request,
    epsilon: Callable[[float], float | None],
    delta: Callable[[float], float | None],
    most: int,
) -> Found:
    """ε and δ when the row is in a bag, and over the draw."""

    def both(chance: float) -> Found:
        e, d = epsilon(chance), delta(chance)
        finite = e is not None and math.isfinite(e)
        return {"epsilon": e if finite else None, "delta": chance if d is None else d}

    found: Found = {"conditional": both(1.0), "max_bags": most}
    if request.chance is not None:
        found["unconditional"] = {"chance": request.chance} | both(request.chance)
    if found["conditional"]["epsilon"] is None:
        found["reason"] = f"no ε is enough for δ = {request.delta:g} when the row is in a bag"
    return found


def _by_theorem(request: Request, epsilon: Callable[[float], Answer], delta: Answer) -> Found:
    def at(chance: float) -> float | None:
        target = sampled_wtd_flag.affordable_delta(request.delta, chance)
        return 0.0 if target >= 1.0 else epsilon(target).value

    value = 1.0 if delta.value is None else delta.value
    bag_size = request.given["bag_size"]
    most = sampled_wtd_flag.affordable_bags(request.rows, bag_size, value, request.delta)
    found = _priced(request, at, lambda chance: value * chance, most)
    reason = epsilon(request.delta).reason or delta.reason
    return found | ({"reason": reason} if reason else {})


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")
