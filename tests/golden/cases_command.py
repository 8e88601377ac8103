"""What the command line prints as JSON: every accountant by `account`, a comparison by `plan`."""

from __future__ import annotations

import tempfile
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from tests.console import labeldp
from tests.golden import tables
from tests.golden.inside import as_recorded, offer_as_recorded, recorded_mechanisms

ROWS = ("--label-range", 0, 51, "--rows")
BUDGETS = ((0.01, 1e-3), (1, 1e-6), (50, 1e-12))
KNOWN = ("--features", 40, "--max-leverage", 0.02)
SPREAD = ("--features", 40, "--leverage-factor", 3)
PROMISE = "--min-eigenvalue 0.5 --feature-bound 3"
"""Options of Theorem 2 that a question was recorded with; `account` has them no more."""
FLAG, SAMPLED, NOISY = "wtd-flag", "sampled-wtd-flag", "sampled-noisy-wtd-lag"

ASKED: list[tuple[Any, ...]] = [
    *(
        (FLAG, *ROWS, rows, "--residual-ms", 64.22, *more)
        for rows, more in product(
            (5000, 131_903_910), ((), KNOWN, ("--bags", 1), ("--bags", 10**7))
        )
    ),
    (FLAG, *ROWS, 5000, "--residual-ms", 64.22, *KNOWN, "--no-intercept"),
    *(
        (SAMPLED, *ROWS, 10**6, "--residual-ms", 64.22, *more)
        for more in (
            ("--bag-size", 12_000, "--bags", 40),
            ("--bag-size", 5000, *SPREAD, PROMISE),
        )
    ),
    *(
        (NOISY, *ROWS, 10**6, "--noise-std", 60, "--noisy-fraction", *more)
        for more in ((1, "--bag-size", 40), (0.2, "--bag-size", 800, "--bags", 30))
    ),
]


def account(question: str) -> Any:
    """The document, or how the command refused."""
    # a multiple of features/bag-size was recorded; now leverages of bags are given as they are
    question = question.replace(PROMISE, "").replace("--leverage-factor 3", "--max-leverage 0.024")
    found = labeldp("account", *question.split(), "--json")
    return found.json if found.code == 0 else {"refused": found.error}


def compared() -> Any:
    """Every mechanism's plan for a file, in the order of their errors, and the one of `auto`."""
    with tempfile.TemporaryDirectory() as folder, recorded_mechanisms():
        file = Path(folder) / "table.parquet"
        pq.write_table(tables.table("five thousand"), file)
        options = (
            "--label",
            "label",
            "--label-range",
            0,
            10,
            "--anyway",
            "--max-megabytes",
            128,
            "--winsor",
            0,
            "--json",
        )
        document = labeldp("plan", file, *options).json
        offers = [
            labeldp("plan", file, *options, "--mechanism", name).json
            for name in (FLAG, SAMPLED, NOISY)  # in this order bags were drawn when recorded
        ]
    offers.sort(key=lambda offer: float(offer["forecast"]["mean_mse"]))
    return as_recorded(document) | {"comparison": [*map(offer_as_recorded, offers)]}


CASES = {
    question: partial(account, question)
    for question in (
        " ".join(map(str, (*one, "--epsilon", e, "--delta", d)))
        for one, (e, d) in product(ASKED, BUDGETS)
    )
} | {"plan --mechanism auto": compared}
