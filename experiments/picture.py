"""The README's picture: how well private fits predict, over ε, on the example table.

    python -m experiments.picture docs/plots/doctor_visits.svg

R² of the default fit of labeldp, of two simple alternatives under the same guarantee, and of least
squares with all labels, over all rows. It reads raw labels, which are public here.
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from experiments.alternatives import PEERS, Budget, Trial
from experiments.least_squares import errors
from experiments.study import DELTA, Study

from labeldp import scan

TABLE = Path(__file__).parents[1] / "examples" / "doctor_visits.parquet"
LABEL, RANGE = "visits", (0.0, 80.0)
EPSILONS, RELEASES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0), 20
PEER_NAMES = {
    "isotropic output perturbation": "noise on the coefficients",
    "Laplace noise on rows": "noise on every label",
}
COLORS = ("#0b57a4", "#b3541e", "#6b7d22")


def measure() -> tuple[dict[str, np.ndarray], float]:
    """Return R² of each way, one line for each ε and one column for each draw, and the best R²."""
    study = Study(scan(TABLE, label=LABEL, label_range=RANGE))
    found: dict[str, list[np.ndarray]] = {"labeldp": []} | {way: [] for way in PEER_NAMES.values()}
    stream = np.random.default_rng(0)
    for epsilon in EPSILONS:
        budget = Budget(epsilon, DELTA)
        made = study.plan(budget)
        blocks, full = study.full_fit(made)
        trial = Trial(full, blocks, budget, stream, RELEASES)
        drawn = {"labeldp": study.fitted(study.releases(made, RELEASES))}
        drawn |= {PEER_NAMES[p.name]: p.draw(trial) for p in PEERS if p.name in PEER_NAMES}
        for way, fits in drawn.items():
            found[way].append(1 - errors(blocks, fits, RANGE) / full.constant_ss)
    best = 1 - full.residual_ss / full.constant_ss
    return {way: np.array(lines) for way, lines in found.items()}, best


def main(target: str) -> None:
    found, best = measure()
    plt.rcParams |= {"svg.hashsalt": "labeldp", "font.size": 11}
    figure, axes = plt.subplots(figsize=(7.2, 3.6), layout="constrained")
    axes.axhline(best, color="black", ls="--", lw=1.5, label="least squares with all labels")
    for (way, lines), color in zip(found.items(), COLORS, strict=True):
        low, high = np.quantile(lines, (0.1, 0.9), axis=1)
        axes.fill_between(EPSILONS, low, high, color=color, alpha=0.15, lw=0)
        axes.plot(EPSILONS, lines.mean(axis=1), color=color, lw=2, marker="o", ms=4, label=way)
    axes.axhline(0, color="gray", lw=1, ls=":", label="mean of all labels")
    axes.set_xscale("log", base=2)
    axes.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS])
    axes.set_ylim(-0.08, 0.1)
    axes.set_xlabel("ε (smaller is more private)")
    axes.set_ylabel("R² of the predictions")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="lower right", fontsize=10, framealpha=0.9, edgecolor="none")
    figure.patch.set_facecolor("white")
    figure.savefig(target, metadata={"Date": None})


if __name__ == "__main__":
    main(*sys.argv[1:])
