"""The optimiser of shaped-flag: which public weights C add least noise to a fit (theory §9).

The problem
    Whiten the rows: XᵀX = RᵀR, u_i = R⁻ᵀx_i, so that Σ u_i u_iᵀ = I. With C = S^{-½}R⁻ᵀ one label
    moves the aggregates by at most Δ·max ‖C x_i‖, and ‖C x_i‖² = u_iᵀS⁻¹u_i. Once that maximum is
    scaled to 1, the expected excess of a least-squares fit is (Δ/μ)²·tr S. So:

        minimise tr S  subject to  u_iᵀS⁻¹u_i ≤ 1 for every row i.

The dual, over weights p_i on rows and p_0 on the uniform measure over all n rows
        maximise (tr M^½)²,  M = Σ p_i u_i u_iᵀ + (p_0/n)·I;  then S = M^½·max_i g_i,
        g_i = u_iᵀM^{-½}u_i.

    p_0 keeps M regular; p_0 = 1 is isotropic noise. With T = tr M^½ every Σ p_i g_i = T, and p is
    optimal where no g_i exceeds T. Any p gives a lower bound of the optimum (weak duality), and
    any M an S that is feasible for these rows, so nothing rests on convergence.

The steps: an active-set method, since all rows together do not fit a solver
    1. Isotropic noise, C = R⁻ᵀ, is the first candidate: the result is never worse (`_Search.run`).
       Its pass over all rows brings those of largest norm, and a sample.
    2. Solve the dual on the rows at hand (`solve_dual`).
    3. A pass over all rows measures the true maximum of ‖C x_i‖, which certifies the trace of
       this C, and returns the rows that violate the constraint (`_Search._measure`).
    4. They join the rows at hand; repeat until few violate it or the gap is small
       (`_Search._optimize`).
    The C of least *certified* trace is kept. Its gap, trace/bound ≥ 1, says how far from optimal
    it is at most.

Privacy: nothing here reads labels, and no guarantee rests on it. The sensitivity L is measured
on the C that is published, whatever it is (`exact/row_norms.py`). Nor does anything depend on
clocks, on how rows are batched or on the number of cores: LAPACK works with one thread here,
since its last digits follow its threads, and plans must be reproducible.

A ridge (theory §12)
    Least squares counts noise in every direction alike. A fit with a penalty λ·‖r‖² on its
    coefficients keeps of noise in b only what W = (I + λ·R⁻ᵀR⁻¹)⁻¹ leaves, so tr(WS) should be
    least. With R'ᵀR' = XᵀX + λI in place of XᵀX that is the same problem: rows become
    u' = R'⁻ᵀx, C = S'^{-½}R'⁻ᵀ and tr S' = tr(WS), but Σ u'u'ᵀ = W, no longer I, and so is the
    uniform measure's part of M. The constant is not penalised.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from threadpoolctl import threadpool_limits

from labeldp.exact.cholesky import ROUNDOFF, VerifiedCholesky, ridge_cholesky
from labeldp.exact.row_norms import RowNorms, Weights
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.active_rows import ActiveRows, row_work

Array = NDArray[np.float64]
ScanRows = Callable[[Weights, int, int, float], RowNorms]
"""scan_rows(C, keep, sample, floor): a pass over all rows; see `RowNormScan`."""

FULL, ISOTROPIC = "full", "isotropic"
MOST_COLUMNS = 2600
"""With more, noise is isotropic: a search would take many minutes."""
_PASSES = 6
_ENOUGH, _WIDE_ENOUGH, _WIDE = 1.02, 1.025, 300
"""The gap at which no further pass is worth its time; from so many columns on a step is dear."""
_CONVERGED, _ROUNDS_TO_CONVERGE = 0.01, 2
"""Converged: no row is longer by more than this, in this round or a later one."""
_MOST_ROWS = 20_000
"""Rows that the first pass samples, at most."""
_LEAST_UNIFORM = (0.03, 0.003, 1e-4)
"""Least weight of the uniform measure, by round: few rows must not speak for all at first."""
_TOLERANCE = (0.06, 0.01)
"""By how much rows at hand may violate the constraint, by round."""
_STEPS, _LEAST_STEPS = 40, 8
_WORK = 3e11
"""Floating-point operations of a round: some 10 s."""
_MEAN_INSURANCE, _LEAST_INSURANCE, _INSURED_ROWS = 0.05, 0.005, 50.0
"""Few rows need the whole insurance of the mean; with many, a tenth does as well."""
_POWER, _MORE, _MOST_POWER = 2.0, 1.5, 20.0
"""Of g/T in a step. The square is known to ascend; a row that stays on the same side of 1 gets a
larger one in every step, which takes a third of the steps."""
_MOST_RATIO = 1000.0
"""No g/T counts as more in a step, so that no power overflows."""
_NEW_WEIGHT = 0.3
"""Of a row that joins, over the mean of the active ones."""
_IDLE, _LOW, _IDLE_SHARE = 1e-5, 0.9, 0.15
"""Rows with less than this of the mean weight and of T are idle; once they are such a share, they
are dropped."""
_EIGENVALUE_FLOOR = 1e-15
"""Least eigenvalue of M, relative to the largest: M^{-½} must stay finite."""


@dataclass(frozen=True)
class NoiseCovariance:
    """Public weights with their certified sensitivity and noise."""

    weights: Weights
    length: float
    """L, at least ‖C x_i‖ of every row; at least ½ and less than 1."""
    trace: float
    """L²·tr((CᵀC)⁻¹(XᵀX)⁻¹): the expected excess is (Δ/μ)² times as much."""
    objective: float
    """What was minimised: the trace, or with a ridge tr(WS)."""
    kind: str
    """full or isotropic; design (diagonal) in releases of earlier versions."""
    isotropic: float = math.inf
    """The objective of isotropic noise: without a ridge d·h_max."""
    bound: float = 0.0
    """No C has a smaller objective."""
    passes: int = 0
    ridge: float = 0.0
    """λ over the mean eigenvalue of XᵀX without the mean; 0: none."""

    @property
    def gap(self) -> float:
        """How far from the best possible: certified, at least 1."""
        return self.objective / self.bound


def optimize_noise_shape(
    cholesky: VerifiedCholesky, features: FeatureMap, scan_rows: ScanRows, ridge: float = 0.0
) -> NoiseCovariance:
    """Return the C of least certified objective after a few passes.

    With a ridge it is the C for fits that shrink so; its trace, that of least squares, is larger.
    """
    with threadpool_limits(1, "blas"):
        if not ridge:
            return _Search(cholesky, features, scan_rows).run()
        ridged, second_moment = ridge_whitening(cholesky, features, ridge)
        best = _Search(ridged, features, scan_rows, second_moment).run()
        trace = float(np.square(best.weights.noise_root(cholesky)).sum())
    trace *= best.length**2 * (1 + cholesky.error_bound)
    return replace(best, trace=trace, ridge=ridge)


class _Search:
    """Rounds of proposing a C on some rows and measuring it on all of them."""

    def __init__(
        self,
        cholesky: VerifiedCholesky,
        features: FeatureMap,
        scan_rows: ScanRows,
        second_moment: Array | None = None,
    ) -> None:
        """`second_moment` is W = Σ u_i u_iᵀ where the factor has a ridge; None: the identity."""
        self._cholesky, self._second_moment = cholesky, second_moment
        self._features = features.keep(cholesky.kept)
        self._mean = mean_direction(cholesky, features)
        self._scan_rows, self._passes = scan_rows, 0
        self._keep = min(2000, max(1000, 5 * cholesky.rank))
        # As many rows as a step takes as long for as for the eigenvectors.
        rows = 0.4 * cholesky.rank**3 / row_work(self._features)[0]
        self._sample = max(2 * self._keep, min(_MOST_ROWS, int(rows)))
        # The first bound is the dual at the uniform measure alone: M = W/n.
        if second_moment is None:
            self._bound = cholesky.rank**2 / cholesky.rows
        else:
            roots = np.sqrt(np.linalg.eigvalsh(second_moment).clip(0.0))
            self._bound = float(roots.sum() ** 2) / cholesky.rows * (1 - cholesky.error_bound)

    def run(self) -> NoiseCovariance:
        """Try isotropic noise, then a full shape if that is no work of many minutes."""
        rank = self._cholesky.rank
        sample = self._sample if rank <= MOST_COLUMNS else 0
        isotropic, norms = self._measure(self._cholesky.inverse, sample, 0.0, ISOTROPIC)
        best = isotropic if rank > MOST_COLUMNS else self._optimize(isotropic, norms.rows)
        return replace(best, isotropic=isotropic.objective, bound=self._bound, passes=self._passes)

    def _optimize(self, best: NoiseCovariance, at_hand: Encoded) -> NoiseCovariance:
        """Propose, measure, add rows that violate, until few do or the gap is small."""
        cholesky = self._cholesky
        rows = ActiveRows.of(at_hand, self._features, cholesky)
        mixture = leverage_mixture(rows, _LEAST_UNIFORM[0])
        moment = np.eye(cholesky.rank) if self._second_moment is None else self._second_moment
        enough = _ENOUGH if cholesky.rank < _WIDE else _WIDE_ENOUGH
        steps = int(min(_STEPS, max(_LEAST_STEPS, _WORK / (12.0 * cholesky.rank**3))))
        for number in range(_PASSES - self._passes):
            solution = solve_dual(
                mixture,
                moment / cholesky.rows,
                steps=steps,
                tolerance=_by_round(_TOLERANCE, number),
                least_uniform=_by_round(_LEAST_UNIFORM, number),
            )
            # Bounds hold for rows whitened by the computed factor; its error makes them smaller.
            self._bound = max(self._bound, solution.bound * (1 - cholesky.error_bound))
            covariance = insure_mean(solution.covariance, self._mean, cholesky.rows)
            # S = K·Kᵀ with K triangular, so that C = K⁻¹R⁻ᵀ is triangular too. Of half the
            # length, so that L lies in [½, 1) mostly without further scaling, and what the pass
            # measured holds for C as it is published.
            root = np.linalg.cholesky(covariance)
            shaped = solve_triangular(root, np.eye(cholesky.rank), lower=True)
            proposal = shaped @ cholesky.inverse / 2
            candidate, norms = self._measure(proposal, 2 * self._keep, 0.25, FULL)
            if candidate.objective < best.objective:
                best = candidate
            converged = 4 * norms.maximum <= 1 + _CONVERGED and number >= _ROUNDS_TO_CONVERGE
            if converged or best.objective / self._bound <= enough:
                break
            # Rows that violate the constraint join.
            more = ActiveRows.of(norms.rows, self._features, cholesky)
            mixture = solution.mixture.with_rows(more.take(more.squared_norms(shaped) > 1.0))
        return best

    def _measure(
        self, proposal: Array, sample: int, floor: float, kind: str
    ) -> tuple[NoiseCovariance, RowNorms]:
        """Measure a C for scaled codes by a pass over all rows."""
        self._passes += 1
        cholesky = self._cholesky
        weights = Weights.rounded(cholesky, proposal)
        norms = self._scan_rows(weights, self._keep, sample, floor)
        trace = float(np.square(weights.noise_root(cholesky)).sum())
        certified = norms.length**2 * trace * (1 + cholesky.error_bound)
        scale = -math.frexp(norms.length)[1]  # brings L between ½ and 1, exactly
        length = math.ldexp(norms.length, scale)
        weights = weights.scaled(scale)
        return NoiseCovariance(weights, length, certified, certified, kind), norms


def mean_direction(cholesky: VerifiedCholesky, features: FeatureMap) -> Array | None:
    """Return q0 = R⁻ᵀXᵀ1/√n, a unit vector; None if the constant is not a column."""
    if not features.intercept or not cholesky.kept or cholesky.kept[0] != 0:
        return None
    sums = np.ldexp(cholesky.gram[:, 0].astype(np.float64), -cholesky.exponents)
    return np.asarray(cholesky.inverse @ sums / math.sqrt(cholesky.rows))


def insure_mean(covariance: Array, mean: Array | None, rows: int) -> Array:
    """Return S with S⁻¹ ← (1 − w)·S⁻¹ + w·n·q0q0ᵀ: little noise on the mean (theory §9).

    It is feasible, since (q0·u_i)² = 1/n where the constant is spanned. The mean's own error has
    then at most the variance (Δ/μ)²/(wn²), and the trace grows at most by 1/(1 − w). Theory's w
    is .05; from 10,000 rows on a tenth of it serves, and costs half a per cent. Nothing changes
    where the mean has as little noise anyway.
    """
    if mean is None:
        return covariance
    share = _insurance(rows)
    along = covariance @ mean
    noise = float(mean @ along)
    if noise <= 1 / (share * rows):
        return covariance
    pull = share * rows / (1 - share)  # Sherman-Morrison
    less = np.outer(along, along) * (pull / (1 + pull * noise))
    return np.asarray((covariance - less) / (1 - share))


def _insurance(rows: int) -> float:
    return min(_MEAN_INSURANCE, max(_LEAST_INSURANCE, _INSURED_ROWS / rows))


def _by_round(values: tuple[float, ...], number: int) -> float:
    return values[min(number, len(values) - 1)]


# ---- the dual on some rows


@dataclass(frozen=True)
class RowMixture:
    """Dual weights p of the rows at hand and p_0 of the uniform measure; they add up to 1."""

    rows: ActiveRows
    weights: Array = field(repr=False)
    uniform: float

    def with_rows(self, rows: ActiveRows) -> RowMixture:
        """Return the mixture with more rows, which have less weight than others."""
        weights = np.full(rows.count, _NEW_WEIGHT * self.weights.mean())
        weights = np.concatenate([self.weights, weights])
        return RowMixture(self.rows.with_rows(rows), weights, self.uniform).normalized()

    def normalized(self) -> RowMixture:
        """Return the same with weights that add up to 1."""
        total = float(self.weights.sum()) + self.uniform
        return replace(self, weights=self.weights / total, uniform=self.uniform / total)


def leverage_mixture(rows: ActiveRows, uniform: float) -> RowMixture:
    """Return weights in proportion to the leverage: where a search starts."""
    leverage = rows.squared_norms(np.eye(len(rows.basis)))
    weights = (1 - uniform) * leverage / leverage.sum()
    return RowMixture(rows, weights, uniform).normalized()


class DualSolution(NamedTuple):
    """The best S found, and the mixture that the next search may start from."""

    covariance: Array
    trace: float
    """tr S, feasible for the rows that were given."""
    bound: float
    """No S that is feasible for all rows of the table has less."""
    mixture: RowMixture


def solve_dual(
    mixture: RowMixture,
    uniform_moment: Array,
    *,
    steps: int,
    tolerance: float,
    least_uniform: float,
) -> DualSolution:
    """Take multiplicative steps until no g_i exceeds T by more than `tolerance`.

    `uniform_moment` is W/n, the second moment of the uniform measure.
    """
    best, best_trace, bound, last = None, math.inf, 0.0, math.inf
    above, powers = np.zeros(mixture.rows.count, bool), np.full(mixture.rows.count, _POWER)
    for _ in range(steps):
        rows, weights, uniform = mixture.rows, mixture.weights, mixture.uniform
        moment, error = rows.second_moment(weights)
        eigenvalues, vectors = np.linalg.eigh(moment + uniform * uniform_moment)
        roots = np.sqrt(np.maximum(eigenvalues, _EIGENVALUE_FLOOR * eigenvalues[-1]))
        total = float(roots.sum())  # T
        bound = max(bound, _safe_bound(eigenvalues, error))
        # g_i/T of rows, and of the uniform measure: Σ p_i·g_i + p_0·g_0 = T.
        ratios = rows.squared_norms((vectors / np.sqrt(roots)).T) / total
        share = float(weights @ ratios)
        uniform_ratio = max(0.0, 1.0 - share) / uniform
        longest = max(float(ratios.max()), uniform_ratio)
        trace = total**2 * longest  # of S = M^½·max g
        if trace < best_trace:
            best_trace, best = trace, (total * longest, roots, vectors, mixture)
        # While p_0 is held up, the g_i of rows exceed T on average.
        average = share / max(float(weights.sum()), 1e-300)
        if longest <= (1.0 + tolerance) * max(1.0, average):
            break
        steady = (above == (ratios > 1.0)) & (total >= last)
        above, last = ratios > 1.0, total
        powers = np.where(steady, np.minimum(_MORE * powers, _MOST_POWER), _POWER)
        weights = weights * np.minimum(ratios, _MOST_RATIO) ** powers
        busy = (weights >= _IDLE * weights.mean()) | (ratios >= _LOW)
        if busy.mean() <= 1.0 - _IDLE_SHARE:
            rows, weights, above, powers = rows.take(busy), weights[busy], above[busy], powers[busy]
        uniform = max(least_uniform, uniform * uniform_ratio**_POWER)
        mixture = RowMixture(rows, weights, uniform).normalized()
    assert best is not None  # at least one step
    largest, roots, vectors, mixture = best
    covariance = (vectors * (largest * roots)) @ vectors.T
    return DualSolution(np.asarray(covariance), best_trace, bound, mixture)


def _safe_bound(eigenvalues: Array, error: float) -> float:
    """Return (tr M^½)² rounded down.

    `error` bounds how far M is off; its eigenvalues are off by a few roundings of the largest.
    """
    error += 4 * (len(eigenvalues) + 8) * ROUNDOFF * eigenvalues[-1]
    total = float(np.sqrt(np.maximum(eigenvalues - error, 0.0)).sum())
    return total**2 * (1 - 1e-12)


# ---- a ridge


def ridge_whitening(
    cholesky: VerifiedCholesky, features: FeatureMap, size: float
) -> tuple[VerifiedCholesky, Array]:
    """Return the factor R' of XᵀX + λI, and W = Σ u'u'ᵀ over all rows in its coordinates.

    `size` is λ over the mean eigenvalue of XᵀX without the mean.
    """
    slopes, units = _slopes(cholesky, features)
    mean_eigenvalue = float(np.square(slopes).sum()) / max(1, slopes.shape[1])
    penalties = size * mean_eigenvalue / units**2
    if features.constant is not None:
        penalties[0] = 0.0
    ridged = ridge_cholesky(cholesky, penalties)
    root = ridged.inverse @ cholesky.lower
    return ridged, np.asarray(root @ root.T)


def posterior_error(
    cholesky: VerifiedCholesky,
    features: FeatureMap,
    noise_root: Array,
    *,
    explained: float,
    mean: float,
) -> float:
    """Return the expected squared error of a shrunken fit, to decide whether a ridge pays.

    The fit is the posterior mean of b under noise K·Kᵀ. The prior, for labels nobody has seen, is
    N(0, v0·q0q0ᵀ + τ·(BBᵀ)^½), B the columns without the mean: between coefficients of one size,
    BBᵀ, and directions of one size, I. `explained` and `mean` are sums of squares over all rows:
    of what columns explain, and of the mean. No label is read.
    """
    slopes, _ = _slopes(cholesky, features)
    vectors, values, _ = np.linalg.svd(slopes, full_matrices=False)
    size = explained / values.sum() if values.any() else 0.0
    first = cholesky.rank - len(slopes)
    prior = np.zeros((cholesky.rank, cholesky.rank))
    prior[first:, first:] = (vectors * (size * values)) @ vectors.T
    prior[:first, :first] = mean
    noise = noise_root @ noise_root.T
    return float((noise * np.linalg.solve(prior + noise, prior)).sum())


def _slopes(cholesky: VerifiedCholesky, features: FeatureMap) -> tuple[Array, Array]:
    """Return B, and the design value of one scaled code of every column.

    B is R in the units of the map, less the constant and the mean: if there is a constant, it is
    the first column, and the first direction is the mean's.
    """
    units = np.ldexp(features.kept_scales, cholesky.exponents)
    first = int(features.constant is not None)
    return np.asarray((cholesky.lower.T * units)[first:, first:]), np.asarray(units)
