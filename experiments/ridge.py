"""docs/curves.md: does a shape that knows what shrinkage will drop pay on wide bases?

    python -m experiments.ridge --data DIR

The noise of shaped-flag has the covariance M of least trace for which no row counts for more than
its share: uᵀM⁻¹u ≤ 1 for all rows u of UᵀU = I (theory §5). With a public ridge (theory §12) it is
the trace of WM that is least, W = G(G + λ)⁻¹ with G = XᵀX: directions of small eigenvalues, which
shrinkage drops, may get more noise. Both are found by the same multiplicative algorithm here, on
few rows and hundreds of columns, and predictions are posterior means under a prior whose size is
chosen by its likelihood. None of it is private: labels are used as they are.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import Any

import numpy as np
from experiments.models import Rows
from experiments.study import DELTA
from experiments.tables import USUAL_HOUSING, Table
from numpy.typing import NDArray

from labeldp.accounting import Gaussian, invert
from labeldp.features import fit_features

Matrix = NDArray[np.float64]
EPSILON, RELEASES, STEPS = 1.0, 20, 40
RIDGES = (0.0, 0.01, 0.1, 1.0)
"""λ over the mean eigenvalue of XᵀX."""
CASES = (
    (1_000, "linear"),
    (1_000, "splines:5"),
    (1_000, "splines:5+fourier:100"),
    (4_000, "linear"),
    (4_000, "splines:10"),
    (4_000, "splines:10+fourier:200"),
)


def root(matrix: Matrix, power: float) -> Matrix:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 1e-12) ** power) @ vectors.T)


def shape(rows: Matrix, weights: Matrix) -> Matrix:
    """M of least trace of WM: M W M = Σ λ_i u_i u_iᵀ, where λ_i falls on rows that bind."""
    half, back = root(weights, 0.5), root(weights, -0.5)
    mass = np.full(len(rows), 1 / len(rows))
    for _ in range(STEPS):
        middle = half @ (rows.T @ (rows * mass[:, None])) @ half
        found = back @ root(middle, 0.5) @ back
        lengths = np.einsum("ij,ij->i", rows @ np.linalg.inv(found), rows)
        mass *= lengths / float(mass @ lengths)
    return np.asarray(found * lengths.max())


def predictions(noisy: Matrix, noise: Matrix, prior: Matrix) -> Matrix:
    """Posterior mean, the size of the prior by likelihood."""
    best, kept = -np.inf, noisy
    for size in np.geomspace(1e-4, 1e4, 33):
        together = size * prior + noise
        factor = np.linalg.cholesky(together)
        half = np.linalg.solve(factor, noisy)
        likelihood = -float(half @ half) / 2 - float(np.log(np.diag(factor)).sum())
        if likelihood > best:
            best, kept = likelihood, size * prior @ np.linalg.solve(together, noisy)
    return kept


def measure(table: Table, folder: Path, rows: int, basis: str) -> dict[str, Any]:
    """Mean test R² for every ridge."""
    parts = Rows.of(table, folder)
    train = parts.train.slice(0, rows)
    features = fit_features(table.source_of(train), basis=basis)
    low, high = table.label_range
    labels, truth = (
        np.clip(np.asarray(part[table.label], float), low, high) for part in (train, parts.test)
    )
    middle = labels.mean()
    design, test = (features.design(part)[:, 1:] for part in (train, parts.test))
    centre = design.mean(axis=0)
    design, test = design - centre, test - centre
    _, values, vectors = np.linalg.svd(design, full_matrices=False)
    keep = values > 1e-6 * values[0]
    turned, values = vectors[keep].T / values[keep], values[keep]
    u, ahead = design @ turned, test @ turned
    exact, squares = u.T @ (labels - middle), values**2
    mu = invert.limit(Gaussian(1.0), "mu", EPSILON, DELTA)
    random, found = np.random.default_rng(0), {}
    draws = random.normal(size=(RELEASES, len(values)))
    for ridge in RIDGES:
        weights = squares / (squares + ridge * squares.mean())
        noise = ((high - low) / mu) ** 2 * shape(u, np.diag(weights))
        spread = root(noise, 0.5)
        scores = []
        for draw in draws:
            guess = predictions(exact + spread @ draw, noise, np.diag(squares / squares.mean()))
            misses = truth - np.clip(middle + ahead @ guess, low, high)
            scores.append(1 - float(misses @ misses) / float(np.sum((truth - truth.mean()) ** 2)))
        found[f"{ridge:g}"] = round(float(np.mean(scores)), 4)
    return {"table": table.name, "rows": rows, "basis": basis, "columns": len(values), "r2": found}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("LABELDP_REAL_DATA"))
    asked = parser.parse_args()
    if asked.data is None:
        parser.error("say where the tables are: --data DIR or LABELDP_REAL_DATA")
    for rows, basis in CASES:
        print(measure(USUAL_HOUSING, Path(asked.data), rows, basis), flush=True)


if __name__ == "__main__":
    main()
