"""Every accountant's answers, extremes among them: lists of [*arguments, answer]."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from itertools import product
from typing import Any

from labeldp import LabelDPError
from tests.golden.inside import ANSWERS

Question = tuple[Any, ...]
Public = tuple[Any, ...]

SMALL, CENSUS = (1000, (0.0, 10.0)), (131_903_910, (0.0, 51.0))
PUBLIC = (100_000, (-1.0, 1.0), 20, 60 / 100_000)
OFF_CENTRE = (100_000, (-1.0, 3.0), 20, 60 / 100_000, False, 2.0**-30)
TABLES: dict[Public, float] = {
    SMALL: 2000.0,
    CENSUS: 64.22 * 131_903_910,
    PUBLIC: 25_000.0,
    OFF_CENTRE: 40_000.0,
}
"""What is public of a table, and a residual floor."""
BUDGETS = ((0.01, 1e-3), (0.5, 1e-12), (1.0, 1e-6), (3.0, 1e-8), (10.0, 1e-5), (50.0, 1e-12))
PRICE = (0.05, 1e-9)

BAGS_OF = {(40, (0.0, 10.0), 8): 90.0, (4000, (0.0, 10.0), 20, 0.02): 9000.0}
OPEN = (12_000, (0.0, 51.0))
ONE_BAG = {**BAGS_OF, OPEN: 64.22 * 12_000}
NOISY = (
    (1, (-1.0, 1.0), 1.0, 8.0, 1000),
    (20, (0.0, 10.0), 1.0, 12.0, 400),
    (300, (0.0, 1.0), 0.1, 2.0, None),
)
SCALED = (-1.0, 1.0)
PROMISES = (
    (10**10, SCALED, 1.0, 1.5, 3),
    (10**9, SCALED, 0.2, 2.0, 5),
    (100, SCALED, 0.01, 9.0, 3),
)


def wtd_flag(*tables: Public, priced: bool) -> dict[str, Iterable[Question]]:
    """Three sides of one law: bags, floor and budget, each found from the others."""
    prices = (None, PRICE) if priced else (None,)
    floors = [(public, TABLES[public]) for public in tables]
    return {
        "delta": [
            *((p, m, f, e, q) for p, f in floors for m, e, q in product(BAGS, EPSILONS, prices)),
            *((p, 10, f, 2.0, None, group) for p, f in floors for group in (2, 3, 5)),
        ],
        "epsilon": [
            *((p, m, f, d, q) for p, f in floors for m, d, q in product(BAGS, DELTAS, prices[-1:])),
            *((p, 10, f, 1e-6, None, group) for p, f in floors for group in (2, 5)),
        ],
        "max_bags": [(p, f, *b, q) for (p, f), b, q in product(floors, BUDGETS, prices)],
        "min_floor": [(p, m, *b) for p in tables for m, b in product(BAGS, BUDGETS[1:4])],
    }


BAGS, EPSILONS, DELTAS = (1, 100, 10**7), (0.01, 1.0, 50.0), (1e-12, 1e-4)

SAMPLED: dict[str, Iterable[Question]] = {
    "delta": [
        *((p, f, e) for (p, f), e in product(ONE_BAG.items(), (0.0, 0.01, 0.5, 1.0, 4.0, 50.0))),
        *((p, f, 1.0, PRICE, 1, 0.25) for p, f in ONE_BAG.items()),
        *((p, f, 2.0, (0.0, 0.0), group, 0.1) for p, f in ONE_BAG.items() for group in (2, 3)),
    ],
    "epsilon": [
        *((p, f, d) for (p, f), d in product(ONE_BAG.items(), (1e-12, 1e-6, 1e-2))),
        *((p, f, 1e-5, PRICE, 1, 0.25) for p, f in ONE_BAG.items()),
        *((p, f, 1e-5, (0.0, 0.0), 3, 0.25) for p, f in ONE_BAG.items()),
    ],
    "max_bags": [
        (p, 10**6, f, *b, q)
        for (p, f), b, q in product(ONE_BAG.items(), BUDGETS, ((0.0, 0.0), PRICE))
    ],
    "min_floor": [
        *((p, *budget) for p, budget in product(ONE_BAG, BUDGETS)),
        *((p, 1.0, 1e-5, PRICE, 0.25) for p in ONE_BAG),
    ],
    "min_bag_size": [
        ((0.0, 51.0), 64.22, *budget, *known)
        for budget, known in product(BUDGETS, ((), (40,), (40, 3.0)))
    ],
}

THEOREM2: dict[str, Iterable[Question]] = {
    "delta": [(*p, k, e) for p, k, e in product(PROMISES, (50, 10**7, 10**9), (0.5, 3.0, 11.0))],
    "epsilon": [(*p, k, d) for p, k, d in product(PROMISES, (50, 10**7, 10**9), (1e-12, 1e-5))],
    "min_bag_size": [(*p, *budget) for p, budget in product(PROMISES, BUDGETS)],
    "terms": [(*p, *budget) for p, budget in product(PROMISES[:2], BUDGETS[1:5])],
}

NOISY_LAG: dict[str, Iterable[Question]] = {
    "delta": [
        *((p, e) for p, e in product(NOISY, (0.0, 0.01, 1.0, 4.0, 50.0))),
        *((p, 1.0, 0.25) for p in NOISY),
    ],
    "epsilon": [(p, *d) for p, d in product(NOISY, ((1e-12,), (1e-6,), (1e-2,), (1e-6, 0.25)))],
    "max_bags": [(p, *budget) for p, budget in product(NOISY, BUDGETS)],
    "min_noise_std": [
        (p, *given) for p, given in product(NOISY, (*BUDGETS[::2], (1.0, 1e-6, 0.25)))
    ],
    "min_bag_size": [
        (SCALED, rho, *budget, 8.0, None) for rho, budget in product((1.0, 0.3), BUDGETS[1:])
    ],
    "target_mu": [(*b, chance) for b, chance in product(BUDGETS, (1.0, 0.25, 1e-4))],
    "realised_mu": [
        ([[0.5, -1.25, 2.0], [1.0, 3.0, -0.25]], [[1, 1, 0], [0, 1, 1]], 2.0, 1.5),
        ([[0.5, -1.25]], [[0, 0]], 2.0, 1.5),
    ],
    "realised_delta": [([0.1, mu], e) for mu, e in product((0.3, 1.0, 5.0), (0.01, 1.0, 50.0))],
    "realised_epsilon": [([0.1, mu], d) for mu, d in product((0.3, 1.0, 5.0), (1e-12, 1e-5))],
}

THEOREM3: dict[str, Iterable[Question]] = {
    "delta": [
        (SCALED, rho, k, e, m)
        for rho, k, e, m in product((1.0, 0.25), (10**4, 10**8), (0.5, 10.0), (1, 1000))
    ],
    "epsilon": [
        (SCALED, rho, k, d, 1, 4.0)
        for rho, k, d in product((1.0, 0.25), (10**4, 10**8), (1e-12, 1e-5))
    ],
    "min_bag_size": [
        (SCALED, rho, *b, m) for rho, b, m in product((1.0, 0.25), BUDGETS, (1, 10**4))
    ],
}

GAUSSIAN: dict[str, Iterable[Question]] = {
    "delta": list(product((-1.0, 0.0, 0.01, 1.0, 50.0), (1e-6, 0.3, 1.0, 20.0))),
    "upper": list(product((0.0, 1.0, 50.0), (0.0, 0.3, 1.0))),
    "epsilon": list(product((1e-12, 1e-6, 0.1), (0.01, 0.3, 1.0, 20.0))),
    "mu": list(BUDGETS),
}

CURVE = [(0.0, 0.2), (0.5, 0.05), (1.0, 1e-3), (2.0, 1e-6)]
OTHER: dict[str, Iterable[Question]] = {
    "family bounds": [
        (m, tau, *known, e)
        for m, tau, known, e in product(
            (1, 100, 10**5), (1e-4, 0.05), ((1.0, 1.0), (1e-3, 0.01)), (0.0, 1.0)
        )
    ],
    "residual_cosine": list(product((50, 10**6), (0.5, 5.0), (0.03, 0.5), (100.0, 1e5))),
    "membership": [(400, 20, 20), (400, 3, 7), (10**9, 7, 11), (10, 3, 4)],
    "affordable_delta": list(product((1e-12, 1e-5, 0.1), (1e-6, 0.3, 1.0))),
    "affordable_bags": [(10**6, 100, given, 1e-6) for given in (1e-7, 1e-5, 0.3, 1.0)],
    "group_delta": list(product((0.0, 0.5, 200.0), (1e-9, 1e-3), (1, 2, 5))),
    "best_true_positive_rate": [(CURVE, rate) for rate in (1e-5, 1e-3, 0.1)],
    "default_measurement": list(BUDGETS),
    "added_variance": [(100.0, 0.0), (100.0, 9.5), (100.0, 10.0), (100.0, 11.0)],
    "lower_bound": [(PRICE, 800.0, 10.0), (PRICE, 2000.0, 10.0), ((1.0, 1e-3), 50.0, 2.0)],
    "theorem 1 utility": [
        (10**6, SCALED, 0.3, m, 10, 3.0, 2.0, theta) for m, theta in product((100, 10**6), (0.1, 1))
    ],
    "random projection": [(s, 2.0, *b) for s, b in product((1e3, 1e6), BUDGETS)],
}

ASKED: dict[str, dict[str, Iterable[Question]]] = {
    "wtd-flag exact": wtd_flag(*TABLES, priced=True),
    "wtd-flag exact-worst-case": wtd_flag(CENSUS, PUBLIC, priced=True),
    "wtd-flag paper": {"max_bags": wtd_flag(*TABLES, priced=False)["max_bags"]},
    "sampled-wtd-flag exact": SAMPLED,
    "sampled-wtd-flag paper": THEOREM2,
    "sampled-noisy-wtd-lag exact": NOISY_LAG,
    "sampled-noisy-wtd-lag paper": THEOREM3,
    "gaussian": GAUSSIAN,
    "other": OTHER,
}


def answers(who: str, question: str) -> list[list[Any]]:
    """[*arguments, answer] for every question of a kind; a refusal by its name."""
    return [[*given, answer(who, question, given)] for given in ASKED[who][question]]


def answer(who: str, question: str, given: Question) -> Any:
    try:
        return ANSWERS[who][question](*given)
    except LabelDPError as refusal:
        return f"refused: {type(refusal).__name__}"


CASES = {
    f"{who} {question}": partial(answers, who, question)
    for who, questions in ASKED.items()
    for question in questions
}
