"""What sampled-noisy-wtd-LAg costs, from public quantities alone: `labeldp account`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.gaussian import GaussianProfile, largest_mu
from labeldp.accounting.theorems import Theorem3
from labeldp.accounting.weighted_bags import RandomWeightsProfile
from labeldp.errors import InputError
from labeldp.mechanisms import account

if TYPE_CHECKING:
    from labeldp.mechanisms.sampled_noisy_wtd_lag import SampledNoisyWtdLagQuestion

Found = dict[str, Any]
_OWN = ("bags", "bag_size", "noisy_fraction", "noise_std")
_SCALED = 2.0


def answer(mechanism: str, asked: SampledNoisyWtdLagQuestion) -> Found:
    """The smallest private bag, or the price of bags of one size; a priori and realised."""
    account.check_bags(asked)
    fraction = account.need(mechanism, asked, "noisy_fraction")
    realised: Found = {"target_mu": largest_mu(*asked.budget)}
    if asked.bag_size is None:
        paper, exact = _smallest(asked, fraction)
        exact |= {"realised": realised}
    else:
        if asked.bags is not None:
            drawn = account.over(asked, GaussianProfile(1.0))
            realised["unconditional_target_mu"] = calibrate(drawn, "mu", *asked.budget)
        paper, a_priori = _priced(asked, fraction)
        exact = {"a_priori": a_priori, "realised": realised}
    found = {"accountants": {"paper": paper, "exact": exact}}
    return account.document(mechanism, asked, _OWN, found)


def _smallest(asked: SampledNoisyWtdLagQuestion, fraction: float) -> tuple[Found, Found]:
    labels, std = asked.label_range, _noise_std(asked)
    laws = (
        Theorem3(labels, fraction, noise_std=std),
        RandomWeightsProfile(1, labels, fraction, std, asked.rows),
    )
    paper, exact = (account.limit(asked, law, "bag_size") for law in laws)
    return account.smallest(asked, paper), account.smallest(asked, exact)


def _priced(asked: SampledNoisyWtdLagQuestion, fraction: float) -> tuple[Found, Found]:
    labels, std, size = asked.label_range, _noise_std(asked), asked.bag_size or 1
    law = RandomWeightsProfile(size, labels, fraction, std, asked.rows)
    theorem = Theorem3(labels, fraction, size, asked.bags or 1, std)
    names = ("noise_std", "noisy_fraction")
    needs = {f"min_{name}": account.limit(asked, law, name).value for name in names}
    return account.priced_by_theorem(asked, theorem), account.priced(asked, law) | needs


def _noise_std(asked: SampledNoisyWtdLagQuestion) -> float:
    """The noise deviation; the paper's 1 is meant for labels scaled to a width of 2."""
    low, high = asked.label_range
    if asked.noise_std is None and high - low > _SCALED:
        raise InputError(
            f"sampled-noisy-wtd-lag needs `noise_std`, in the units of labels from {low:g} to "
            f"{high:g}; the paper's 1 is for labels scaled to -1 … 1"
        )
    return 1.0 if asked.noise_std is None else asked.noise_std
