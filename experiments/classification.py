"""The part of docs/peers.md on yes/no labels and counts.

    python -m experiments.classification --data DIR [--write docs/peers.md]

DIR (or the environment variable LABELDP_REAL_DATA) holds `adult_income.parquet`, which is not part
of this repository. A quarter of the rows is kept aside and scored with raw labels: for comparison
only, none of it is private.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from experiments.peers_page import markdown
from experiments.real_data import put_between_marks
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import (
    LogisticRegression as PlainLogistic,
    PoissonRegressor as PlainPoisson,
)
from sklearn.metrics import brier_score_loss, log_loss, mean_poisson_deviance, roc_auc_score
from sklearn.model_selection import GridSearchCV

from labeldp import LinearRegressor, LogisticRegression, PoissonRegressor, plan, scan
from labeldp.sampling.streams import Randomness

Array = NDArray[np.float64]
EPSILONS = (0.1, 0.25, 0.5, 1.0, 4.0)
DELTA, REPEATS = 1e-6, 5
OURS = "**labeldp, logistic**"
COUNTS = "**labeldp, Poisson**"
ALL = "all labels"
_PENALTIES = {"C": [1e-4, 1e-3, 1e-2, 1e-1, 1.0]}
_LEAST = 1e-3
"""Probabilities are at least this far from 0 and 1, and expected counts from 0."""
DOCTOR_VISITS = Path(__file__).parents[1] / "examples" / "doctor_visits.parquet"

TEXT = """\
## Yes or no, and counts

Three quarters of the rows are released, the others are scored, with raw labels. Figures are the
mean of {repeats} releases ± the deviation of one; all tables are split once, at random. Every way
has labeldp's design matrix, and **bold** is a way that does better than ours ("all labels" apart).

- "labeldp, logistic" is `LogisticRegression().fit(release, table)` on a release of shaped-flag, all
  by default; "labeldp, linear" is `LinearRegressor` on the same release, its predictions cut at
  .001 and .999.
- "randomized response, our fit" is `LogisticRegression` on a release of noisy-rows.
- "randomized response, tuned" is scikit-learn's logistic regression on the same changed labels,
  its ridge chosen by cross-validation on them, its probabilities corrected for the changes.
- "all labels" is scikit-learn's logistic regression, its ridge chosen by cross-validation.
"""


@dataclass(frozen=True)
class Split:
    """Rows that are released, and rows that are scored."""

    train: pa.Table
    test: pa.Table
    label: str

    @classmethod
    def of(cls, table: pa.Table, label: str) -> Split:
        order = np.random.default_rng(0).permutation(len(table))
        cut = len(table) * 3 // 4
        return cls(table.take(order[:cut]), table.take(order[cut:]), label)

    @property
    def truth(self) -> Array:
        return np.asarray(self.test[self.label].to_numpy(), dtype=np.float64)


def breast_cancer() -> pa.Table:
    """The table of scikit-learn."""
    data = load_breast_cancer()
    names = [str(name).replace(" ", "_") for name in data.feature_names]
    columns = dict(zip(names, data.data.T, strict=True))
    return pa.table({**columns, "benign": data.target.astype(np.int8)})


def tuned(design: Array, labels: Array) -> Any:
    """Logistic regression with the ridge of least log-loss in cross-validation."""
    search = GridSearchCV(PlainLogistic(max_iter=500), _PENALTIES, scoring="neg_log_loss", cv=3)
    return search.fit(design[:, 1:], labels)  # it has an intercept of its own


SCORES: dict[str, tuple[Callable[[Array, Array], float], int]] = {
    "AUC": (roc_auc_score, 1),
    "log-loss": (log_loss, -1),
    "Brier": (brier_score_loss, -1),
}
"""With 1 if more is better."""


def classify(rows: Split, epsilon: float, seed: int) -> dict[str, Array]:
    """Return probabilities for the rows kept aside, of one release at this budget."""
    source = scan(rows.train, label=rows.label, classes=("0", "1"))
    found = {}
    made = plan(source, epsilon, DELTA, mechanism="shaped-flag", force=True)
    release = made.release(source, randomness=Randomness.experiment(seed))
    found[OURS] = LogisticRegression().fit(release, rows.train).predict_proba(rows.test)[:, 1]
    linear = LinearRegressor().fit(release).predict(rows.test)
    found["labeldp, linear, the same release"] = np.clip(linear, _LEAST, 1 - _LEAST)
    made = plan(source, epsilon, DELTA, mechanism="noisy-rows", force=True)
    release = made.release(source, randomness=Randomness.experiment(seed))
    fit = LogisticRegression().fit(release, rows.train)
    found["randomized response, our fit"] = fit.predict_proba(rows.test)[:, 1]
    design, aside = made.features.design(rows.train), made.features.design(rows.test)
    changed = tuned(design, release.labels > 0.5).predict_proba(aside[:, 1:])[:, 1]
    kept = 1 / (1 + np.exp(-epsilon))
    corrected = (changed - (1 - kept)) / (2 * kept - 1)
    found["randomized response, tuned"] = np.clip(corrected, _LEAST, 1 - _LEAST)
    return found


def count(rows: Split, epsilon: float, seed: int) -> dict[str, Array]:
    """Return expected counts for the rows kept aside, of one release at this budget."""
    source = scan(rows.train, label=rows.label, label_range=(0, 60), clip=True)
    found = {}
    made = plan(source, epsilon, DELTA, mechanism="shaped-flag", force=True)
    release = made.release(source, randomness=Randomness.experiment(seed))
    found[COUNTS] = PoissonRegressor().fit(release, rows.train).predict(rows.test)
    found["labeldp, linear, the same release"] = LinearRegressor().fit(release).predict(rows.test)
    made = plan(source, epsilon, DELTA, mechanism="noisy-rows", force=True)
    release = made.release(source, randomness=Randomness.experiment(seed))
    fit = PoissonRegressor().fit(release, rows.train)
    found["Laplace noise on rows, our fit"] = fit.predict(rows.test)
    return {way: np.maximum(counts, _LEAST) for way, counts in found.items()}


def all_labels(rows: Split) -> Array:
    """Return what the fit with all labels predicts: probabilities, or counts."""
    counts = rows.truth.max() > 1
    source = scan(rows.train, label=rows.label, label_range=(0, 60 if counts else 1), clip=True)
    features = plan(source, 1.0, DELTA, mechanism="shaped-flag", force=True).features
    design, aside = features.design(rows.train), features.design(rows.test)
    labels = rows.train[rows.label].to_numpy()
    if counts:
        scales = np.append(1.0, design[:, 1:].std(axis=0))
        fit = PlainPoisson(alpha=0, fit_intercept=False, max_iter=5000)
        fit.fit(design / scales, np.clip(labels, 0, 60))
        return np.asarray(fit.predict(aside / scales))
    return np.asarray(tuned(design, labels).predict_proba(aside[:, 1:])[:, 1])


def measured(
    rows: Split,
    draw: Callable[[Split, float, int], dict[str, Array]],
    score: Callable[[Array, Array], float],
    sign: int,
    found: dict[tuple[float, int], dict[str, Array]],
    full: Array,
) -> list[list[str]]:
    """Return the lines of a table: a way, and its score at every budget."""
    truth = rows.truth
    for epsilon in EPSILONS:
        for seed in range(REPEATS):
            if (epsilon, seed) not in found:
                found[epsilon, seed] = draw(rows, epsilon, seed)
    ways = list(found[EPSILONS[0], 0])
    values = {
        way: [
            [score(truth, found[epsilon, seed][way]) for seed in range(REPEATS)]
            for epsilon in EPSILONS
        ]
        for way in ways
    }
    lines = [[ALL, *[f"{score(truth, full):.4f}"] * len(EPSILONS)]]
    for way in ways:
        cells = []
        for ours, own in zip(values[ways[0]], values[way], strict=True):
            text = f"{np.mean(own):.4f} ± {np.std(own, ddof=1):.4f}"
            better = sign * (np.mean(own) - np.mean(ours)) > 0
            cells.append(f"**{text}**" if better and way != ways[0] else text)
        lines.append([way, *cells])
    return lines


def section(folder: Path) -> str:
    """Return the part of the page, as Markdown."""
    budgets = [f"ε = {epsilon:g}" for epsilon in EPSILONS]
    lines = [TEXT.format(repeats=REPEATS)]
    tables = {
        "Adult, income over 50,000": (
            pq.read_table(folder / "adult_income.parquet"),
            "income_over_50k",
        ),
        "breast cancer (scikit-learn)": (breast_cancer(), "benign"),
    }
    for name, (table, label) in tables.items():
        rows = Split.of(table, label)
        lines += [f"### {name[0].upper()}{name[1:]}", "", f"{len(rows.train):,} rows released.", ""]
        found: dict[tuple[float, int], dict[str, Array]] = {}
        full = all_labels(rows)
        for title, (score, sign) in SCORES.items():
            lines += markdown([title, *budgets], measured(rows, classify, score, sign, found, full))
    rows = Split.of(pq.read_table(DOCTOR_VISITS), "visits")
    lines += ["### Doctor visits, counts", "", f"{len(rows.train):,} rows released.", ""]
    full = all_labels(rows)
    table = measured(rows, count, mean_poisson_deviance, -1, {}, full)
    lines += markdown(["Poisson deviance", *budgets], table)
    return "\n".join(lines)


def between_marks(text: str) -> str:
    """Return the part as it stands in the page."""
    return f"\n<!-- classification -->\n{text}<!-- end of classification -->\n"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("LABELDP_REAL_DATA"))
    parser.add_argument("--write", type=Path, help="the page to write to; default: print it")
    asked = parser.parse_args(arguments)
    if asked.data is None:
        parser.error("say where the tables are: --data DIR or LABELDP_REAL_DATA")
    warnings.simplefilter("ignore")
    text = section(Path(asked.data))
    if asked.write:
        put_between_marks(asked.write, text, "classification")
    else:
        print(text)


if __name__ == "__main__":
    main()
