"""The mechanisms; each is one folder and knows no other.

    wtd_flag               wtd-FLAg, Algorithm 1: every aggregate weighs all rows
    sampled_wtd_flag       sampled-wtd-FLAg, Algorithm 2: one aggregate of each of m random bags
    sampled_noisy_wtd_lag  sampled-noisy-wtd-LAg, Algorithm 3: noisy labels, public weights
    naive                  unweighted sums, never private: the warning example

In each folder: `claim` (what is promised), `plan` (from features alone), `execute` (the one pass
over labels), `recheck` (what `verify` looks at). What they share stands beside them: `protocol`,
`floors`, `bags`, `label_law`, `checks`, `fields`.
"""

from typing import Any

from labeldp.errors import InputError
from labeldp.mechanisms import sampled_noisy_wtd_lag, sampled_wtd_flag, wtd_flag
from labeldp.mechanisms.protocol import Draft, Mechanism, Request
from labeldp.release import Claim

MECHANISMS: dict[str, Mechanism] = {
    mechanism.name: mechanism for mechanism in (wtd_flag, sampled_wtd_flag, sampled_noisy_wtd_lag)
}


def mechanism_named(name: str) -> Mechanism:
    """The mechanism of this name; an unknown one is refused."""
    if name not in MECHANISMS:
        raise InputError(f"mechanism {name!r} is unknown; choose {', '.join(MECHANISMS)}")
    return MECHANISMS[name]


def read_claim(document: dict[str, Any]) -> Claim:
    """The claim of a plan or certificate; KeyError, TypeError or ValueError if there is none."""
    return MECHANISMS[document["mechanism"]].read_claim(document)


__all__ = [
    "MECHANISMS",
    "Draft",
    "Mechanism",
    "Request",
    "mechanism_named",
    "read_claim",
]
