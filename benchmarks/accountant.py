"""The accountant against composing privacy loss distributions with dp_accounting: time and error.

    python benchmarks/accountant.py [--bags 10,247,10001,1000000] [--json]

δ(ε) of one neighbour of a release of m bags (theory §3b), at reference values with 20 digits that
tests/accounting/make_references.py computes in ball arithmetic by yet another method:

    contour        ours: one contour integral; `claimed` is its upper end, what a certificate says
    quadrature     our second method, which checks the first
    dp_accounting  the loss of one bag on a grid of this interval (pessimistic, connect the dots),
                   then self_compose(m) and δ(ε); making the one-bag grid is not counted

Errors are relative to δ; dp_accounting's are meant to be on the safe side, like those of `claimed`.
A certificate asks for the worst of all neighbours: the contour is evaluated on many cells at once.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from grams import REMEDY
from numpy.typing import NDArray
from report import print_report
from scipy.special import erfc
from timing import Timing, side_by_side

from labeldp.accounting import contour
from labeldp.accounting.privacy_profile import Bounds

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT))  # the slow twin stands with the tests
from tests.oracles import quadrature  # noqa: E402

REFERENCES = ROOT / "tests" / "accounting" / "references.json"
INTERVALS = (1e-3, 1e-4, 1e-5)
"""1e-4 is dp_accounting's default."""
MOST_POINTS = 200_000
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(60)
_TAIL = 60.0
"""Beyond α·60 the loss of one bag has a mass of 1e-27."""


@dataclass(frozen=True)
class Case:
    """L = κ + αG1 − βG2 for m bags, and the true δ(ε)."""

    bags: int
    alpha: float
    beta: float
    epsilon: float
    delta: float


def cases(bags: list[int]) -> list[Case]:
    """For each number of bags the reference whose δ is nearest to 1e-6."""
    rows = [Case(*row[:4], float(row[4])) for row in json.loads(REFERENCES.read_text())]
    return [
        min(
            (row for row in rows if row.bags == count and row.alpha > 0 < row.beta),
            key=lambda row: abs(math.log(row.delta / 1e-6)),
        )
        for count in bags
    ]


def by_contour(case: Case) -> Bounds:
    loss = contour.joint_loss([(case.bags, case.alpha, case.beta)])
    return quadrature.by_contour(loss, case.epsilon)


def by_quadrature(case: Case) -> float:
    return quadrature.delta_by_quadrature(case.bags, case.alpha, case.beta, case.epsilon)


def one_bag(alpha: float, beta: float, epsilons: NDArray[np.float64]) -> NDArray[np.float64]:
    """δ(ε) of one bag at many ε: G1 in closed form, G2 = s² by Gauss nodes on two panels.

    With x = ε − κ + βs² the integrand is smooth below its corner x = 0 and, above it, in √(s − s*).
    """
    level = epsilons + 0.5 * (math.log1p(alpha) + math.log1p(-beta))
    corner = np.minimum(np.sqrt(np.maximum(0.0, -level / beta)), 7.0)[:, None]
    y = 0.5 * (_NODES + 1.0)
    below, above = corner * y, corner + 7.0 * y * y
    weight = np.hstack([0.5 * corner * _WEIGHTS, np.broadcast_to(7.0 * y * _WEIGHTS, above.shape)])
    s = np.hstack([below, above])
    x = level[:, None] + beta * s * s
    root = np.sqrt(np.maximum(x, 0.0) / alpha)
    tilt = np.exp(x - 0.5 * math.log1p(alpha))
    gain = erfc(root) - tilt * erfc(root * math.sqrt(1.0 + alpha))
    return np.asarray((weight * gain * 2.0 / math.sqrt(math.pi) * np.exp(-s * s)).sum(axis=1))


def composed(case: Case, interval: float) -> Callable[[], float] | None:
    """dp_accounting's answer; None if its grid would be too large."""
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution

    top = math.ceil(_TAIL * max(case.alpha, case.beta) / interval)
    if 2 * top + 1 > MOST_POINTS:
        return None
    grid = np.arange(-top, top + 1)
    deltas = np.clip(one_bag(case.alpha, case.beta, grid * interval), 0.0, 1.0)
    deltas = np.minimum.accumulate(deltas)
    mass = pld_pmf.create_pmf_pessimistic_connect_dots(interval, grid, deltas)
    single = privacy_loss_distribution.PrivacyLossDistribution(mass)

    def ask() -> float:
        with np.errstate(over="ignore"):  # its truncation overflows on the way, harmlessly
            return float(single.self_compose(case.bags).get_delta_for_epsilon(case.epsilon))

    return ask


def measure(case: Case, rounds: int, with_pld: bool) -> list[dict[str, Any]]:
    ways: dict[str, Callable[[], Any]] = {
        "contour": partial(by_contour, case),
        "quadrature": partial(by_quadrature, case),
    }
    for interval in INTERVALS if with_pld else ():
        run = composed(case, interval)
        if run is not None:
            ways[f"dp_accounting, {interval:g}"] = run
    times, answers = side_by_side(ways, rounds)
    bounds = answers["contour"]
    records = [
        record(case, way, times[way], times["contour"], float(getattr(answer, "estimate", answer)))
        for way, answer in answers.items()
    ]
    records.insert(
        1, record(case, "contour, claimed", times["contour"], times["contour"], bounds.upper)
    )
    return records


def record(case: Case, way: str, time: Timing, own: Timing, delta: float) -> dict[str, Any]:
    return {
        "bags": case.bags,
        "epsilon": case.epsilon,
        "delta": case.delta,
        "way": way,
        "milliseconds": 1e3 * time.wall,
        "times_ours": time.wall / own.wall,
        "relative_error": delta / case.delta - 1.0,
    }


def run(bags: list[int], rounds: int) -> dict[str, Any]:
    with_pld = importlib.util.find_spec("dp_accounting") is not None
    notes = [] if with_pld else [f"dp_accounting {REMEDY}"]
    records = [line for case in cases(bags) for line in measure(case, rounds, with_pld)]
    return {"benchmark": "accountant", "records": records, "notes": notes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bags", default="10,247,10001,1000000")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = run([int(count) for count in chosen.bags.split(",")], chosen.rounds)
    print(json.dumps(found, indent=1)) if chosen.json else print_report(found)


if __name__ == "__main__":
    main()
