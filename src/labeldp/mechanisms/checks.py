"""Checks of published numbers that several mechanisms share.

Statistical checks fail with a chance below `CHANCE` for a release that was drawn as it says
(`SCALE_CHANCE` for the size of Laplace noise).

What is tested of the law "any labels in the range, plus independent noise"? The labels are unknown,
so each test holds whatever they are. Let q be the step of
the public grid, s the scale of the noise, [low, high] the range and Δ its width.

1. Outside the range. The tails of both laws are convex and log-concave. So the probability of a
   published label above `high` is largest for a label at `high` and least for one at `low`; that of
   one outside on either side is largest at an end and least in the middle. Given that it is
   outside, the probability of being further out than x lies between tail(x + Δ)/tail(Δ) and
   tail(x)/tail(0). Laplace noise has no memory: both are e^{−x/s}, the number of grid steps beyond
   the end is geometric with ratio e^{−q/s}, and the sum of k such numbers is negative binomial.
2. Size. Gaussian noise makes the squares about the mean no less than χ² with n − 1 degrees of
   freedom (Anderson's inequality), and those about the middle no more than noncentral χ².
3. Values that come again. A cell of the grid has the probability P[|noise| ≤ q/2] at most, so no
   value repeats more often than a binomial variable. The expected number of different values is a
   concave function of the mean law of all rows, hence least if all labels are equal; it changes by
   1 at most with one row (McDiarmid's inequality).
4. Order. How far out labels are is independent from row to row: products of centred ranks at any
   distance of rows are martingale differences.

What no test can see: numbers of this very law from a generator that the forger knows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.special import bdtr, bdtrc, betainc, chdtr, chdtrc, ndtr, ndtri

from labeldp.exact.cholesky import VerifiedCholesky
from labeldp.exact.gram import FeatureGram
from labeldp.exact.label_sums import LABEL_BITS
from labeldp.releases.certificate import Claim
from labeldp.releases.pending import AGGREGATES, CHUNK_ROWS, FEATURES

if TYPE_CHECKING:
    from labeldp.releases.files import Release

Reals = NDArray[np.float64]

CHANCE = 1e-12
"""A release that its law produces with a smaller probability was not drawn from it."""
SCALE_CHANCE = 1e-9
"""The same for the sum of the distances outside the range. It is larger because 20,000 rows then
show noise that is 7 % too small or too large (ε = 1) with a probability of 93 % or more, instead of
75 %; no test at 1e-12 could reach more than 91 % for labels that are spread evenly."""
_THRESHOLDS = np.geomspace(1 / 16, 32, 28)
"""Distances from the range, in scales, at which labels further out are counted."""
_NOTICED = 0.07
_MOST_EXPONENT = 700.0
_POWER = 1.28
"""Normal quantile of 90 %, the probability with which an error of the scale is noticed."""
_ROUNDING = 1e-6
"""Largest size, relative to other entries, of an entry that is 0 but for rounding."""


def check_labels(release: Release, claim: Claim, grid: int) -> Generator[str, None, bool]:
    """Yield where aggregates are no numbers, or labels off the grids that follow from the claim.

    Returns whether all are numbers, so that others can compute with them.
    """
    features, numerics = release.features, release.certificate["numerics"]
    if claim.intercept is not (features.constant is not None):
        yield f"{FEATURES} and the certificate differ on whether there is an intercept"
    exponent = numerics["label_exponent"]
    yield from check_label_exponent(claim.label_range, features.intercept, exponent)
    unsound = list(check_numbers(release))
    yield from unsound or check_grid(release, grid)
    return not unsound


def check_numbers(release: Release) -> Iterator[str]:
    """Yield a problem if some aggregates are not finite numbers."""
    if release.aggregates_features:
        numbers: Iterator[Reals] = (part for both in release.chunks() for part in both)
    else:
        numbers = release.label_chunks()
    for part in numbers:
        if not np.isfinite(part).all():
            yield f"{AGGREGATES} has values that are not numbers"
            return


def check_grid(release: Release, grid: int) -> Iterator[str]:
    """Yield where aggregate labels are off the public grid, or the certificate names another."""
    if release.certificate["numerics"]["grid_exponent"] != grid:
        yield f"certificate: the grid exponent should be {grid}"
    for labels in release.label_chunks():
        cells = np.ldexp(labels, -grid)
        if (cells != np.rint(cells)).any():
            yield f"{AGGREGATES} has labels off the public grid: their low bits may leak"
            return
        if (np.signbit(labels) & (labels == 0)).any():
            yield f"{AGGREGATES} has labels −0.0: the sign of a zero may carry one bit each"
            return


def check_label_exponent(
    label_range: tuple[float, float], centred: bool, exponent: int
) -> Iterator[str]:
    """Yield a problem if labels were not rounded to the grid that follows from their range."""
    low, high = label_range
    reach = high - low if centred else 2 * max(abs(low), abs(high))
    # the range was widened by up to a step of the label grid
    reaches = (reach, reach * (1 - 2.0**-LABEL_BITS))
    exponents = {math.ceil(math.log2(width)) - LABEL_BITS for width in reaches}
    if exponent not in exponents:
        yield f"certificate: the label exponent should be {max(exponents)}"


def other_table(release: Release, gram: FeatureGram) -> str | None:
    """Return why a table is not the one released (its rows or its feature sums), else None."""
    certificate = release.certificate
    if gram.rows != certificate["rows"]:
        return f"the table has {gram.rows} rows, the certificate says {certificate['rows']}"
    if gram.digest() != certificate["digests"]["feature_sums"]:
        return "the table's features are not those of the release"
    return None


FAR = 7.2
"""Deviations that normal noise exceeds with less than this chance."""
SCARCE = 3
"""With so few degrees of freedom even labels without noise are not that improbable: they stand
on a grid of 2**-10 deviations, and (2**-20)**(3/2) is above 1e-12."""


def check_reach(release: Release, most: float) -> Iterator[str]:
    """Yield a problem if labels are larger than weighted sums of labels in their range can be.

    Each is normal about 0 with a variance of `most` at most, and a compact release has the same
    sum of squares.
    """
    square = sum(float(labels @ labels) for labels in release.label_chunks())
    if chdtrc(release.bags, square / most) < CHANCE:
        yield f"{AGGREGATES} has labels larger than those in the range can make them"


def check_scatter(release: Release, floor: float) -> Iterator[str]:
    """Yield a problem if labels vary less about their fit than the floor demands.

    The floor is their variance given features. The residual sum of squares of the fit is that
    variance times χ² with bags − columns degrees of freedom (theory §5), or more if the labels'
    means do not lie on one fit. Any other
    slope only adds to it, so rounding in the normal equations cannot raise a false alarm.
    Features count in their integer codes: squares of 1e200 or 1e-200 are no doubles.
    """
    units, columns = release.features.kept_scales, len(release.features.names)
    gram, cross = np.zeros((columns, columns)), np.zeros(columns)
    for raw, labels in release.chunks():
        design = raw / units
        gram += design.T @ design
        cross += design.T @ labels
    if not (np.isfinite(gram).all() and np.isfinite(cross).all()):
        raise ValueError(f"numbers of {AGGREGATES} are too large")  # LAPACK would not come back
    size = np.sqrt(np.diag(gram))
    scale = np.where(size > 0, size, 1.0)
    slope = np.linalg.lstsq(gram / np.outer(scale, scale), cross / scale)[0] / scale
    square = sum(float(((t - z / units @ slope) ** 2).sum()) for z, t in release.chunks())
    freedom = release.bags - columns
    if freedom > 0 and chdtr(freedom, square / floor) < CHANCE:
        yield f"{AGGREGATES} has labels that vary less about their fit than the floor demands"


# ---- the law of aggregated features
#
# Aggregates Σ g·x with secret normal weights are normal with the Gram matrix XᵀX: whitened by its
# factor they are independent standard normals (theory §3a). QR makes of m rows of d such numbers a
# triangle whose entries are independent again: χ with m, m−1, … degrees of freedom on the diagonal
# and normals above it (Bartlett). Every entry is tested, and so are the rows and their mean. A row
# of the table among the aggregates, for example, fails.


def check_design(release: Release, factor: VerifiedCholesky) -> Iterator[str]:
    """Yield a problem if aggregates are not sums of the table's rows with normal weights."""
    units, whitener = release.features.kept_scales, factor.whitener.T
    parts = (design / units @ whitener for design, _ in release.chunks())
    compact = release.certificate["form"] == "compact"
    likely = _triangle_fits(np.concatenate(list(parts)), release.bags) if compact else _fits(parts)
    if not likely:
        yield f"{AGGREGATES} has features that were not drawn from the table by their law"


def improbable(squares: Reals, freedom: Reals | float) -> bool:
    """Return whether one of several χ² numbers is in a tail of less than `CHANCE` in all."""
    if not len(squares):
        return False
    tails = np.minimum(chdtr(freedom, squares), chdtrc(freedom, squares))
    return bool(2 * len(squares) * np.min(tails) < CHANCE)


def _fits(parts: Iterator[Reals]) -> bool:
    """Return whether these rows pass as independent standard normals; they come in parts."""
    count, total, gram = 0, np.zeros(1), np.zeros((1, 1))
    for part in parts:
        if improbable((part**2).sum(axis=1), part.shape[1]):
            return False
        count += len(part)
        total = total + part.sum(axis=0)
        gram = gram + part.T @ part
    if improbable(np.array([total @ total / max(1, count)]), len(total)) and count:
        return False
    if count <= len(total):  # there is no triangle; every row was looked at
        return True
    try:
        return _entries_fit(np.asarray(np.linalg.cholesky(gram).T, np.float64), count)
    except np.linalg.LinAlgError:
        return False


def _triangle_fits(rows: Reals, bags: int) -> bool:
    """Return whether the triangle of a compact release, above a row of zeros, follows its law."""
    triangle, last = rows[:-1], rows[-1]
    below = np.abs(np.tril(triangle, -1)).max(initial=0.0)
    if last.any() or below > _ROUNDING * np.abs(triangle).max(initial=0.0):
        return False
    return _entries_fit(triangle, bags)


def _entries_fit(triangle: Reals, bags: int) -> bool:
    """Return whether a factor of a Wishart matrix passes for one by Bartlett's law.

    Tested are each entry, the sum of those above the diagonal, and the sum of all.
    """
    rank = len(triangle)
    diagonal, above = np.diag(triangle) ** 2, triangle[np.triu_indices(rank, 1)] ** 2
    sums = np.array([above.sum(), above.sum() + diagonal.sum()])
    freedom = np.array([rank * (rank - 1) / 2, rank * bags])
    some = freedom > 0
    return not (
        improbable(diagonal, bags - np.arange(rank, dtype=np.float64))
        or improbable(above, 1.0)
        or improbable(sums[some], freedom[some])
    )


def bag_squares(design: Reals, sums: Reals, ranks: NDArray[np.int64]) -> tuple[Reals, Reals]:
    """Return χ² of each bag's sum of rows with normal weights, and its distance from their span.

    `design` holds bags × rows × columns. z = Dᵀg lies in the span of D's rows, and zᵀ(DᵀD)⁺z is
    χ² with as many degrees of freedom as D has rank.
    """
    size = np.abs(design).max(axis=1, keepdims=True)
    scale = np.where(size > 0, size, 1.0)
    _, values, right = np.linalg.svd(design / scale, full_matrices=False)
    scaled = sums / scale[:, 0]
    along = (right @ scaled[:, :, None])[:, :, 0]
    inside = np.arange(values.shape[1]) < ranks[:, None]
    squares = np.where(inside, along / np.where(inside, values, 1.0), 0.0) ** 2
    off = scaled - (right.transpose(0, 2, 1) @ np.where(inside, along, 0.0)[:, :, None])[:, :, 0]
    length = np.linalg.norm(scaled, axis=1)
    away = np.linalg.norm(off, axis=1) / np.where(length > 0, length, 1.0)
    return squares.sum(axis=1), away


# ---- labels with independent noise


@dataclass(frozen=True)
class NoiseTails:
    """A symmetric law of scale 1."""

    tail: Callable[[Reals], Reals]
    """P[noise > x] for x ≥ 0."""
    memoryless: bool


LAPLACE_TAILS = NoiseTails(lambda x: 0.5 * np.exp(-x), memoryless=True)
NORMAL_TAILS = NoiseTails(lambda x: ndtr(-x), memoryless=False)


@dataclass(frozen=True)
class NoisyLabels:
    """Labels within [low, high] with noise of a scale, rounded to multiples of 2**grid."""

    law: NoiseTails
    scale: float
    low: float
    high: float
    grid: int

    @property
    def width(self) -> float:
        """Δ in scales."""
        return (self.high - self.low) / self.scale

    @property
    def step(self) -> float:
        """q in scales."""
        return math.ldexp(1.0, self.grid) / self.scale

    @cached_property
    def first(self) -> tuple[float, float]:
        """The numbers of the first cells that lie wholly below and above the range."""
        low, high = np.ldexp([self.low, self.high], -self.grid)
        return math.floor(low - 0.5), math.ceil(high + 0.5)

    @cached_property
    def gaps(self) -> Reals:
        """The distances from the range to those cells, in scales."""
        (below, above), (low, high) = self.first, np.ldexp([self.low, self.high], -self.grid)
        return np.array([low - 0.5 - below, above - 0.5 - high]) * self.step

    def beyond(self, labels: Reals) -> tuple[Reals, Reals]:
        """Return how many cells labels lie beyond the first cell below, and above, the range."""
        cells = np.ldexp(labels, -self.grid)
        return self.first[0] - cells, cells - self.first[1]

    def outside(self) -> tuple[Reals, Reals]:
        """Return least and largest probabilities of a label below, above and outside the range."""
        tail, gaps = self.law.tail, self.gaps
        near, far = tail(gaps), tail(gaps + self.width)
        middle = 2 * tail((gaps.sum() + self.width) / 2)
        return np.append(far, middle), np.append(near, (near + far[::-1]).max())

    def survival(self, side: int, steps: Reals) -> tuple[Reals, Reals]:
        """Return bounds of P[so many steps or more beyond the first cell | outside at this end]."""
        tail, distance, near = self.law.tail, steps * self.step, self.gaps[side]
        if self.law.memoryless:
            both = np.exp(-distance)
            return both, both
        far = near + self.width
        with np.errstate(divide="ignore", invalid="ignore"):
            least = np.nan_to_num(tail(far + distance) / tail(far))
        return least, tail(near + distance) / tail(near)


def check_noise(noisy: NoisyLabels, labels: Iterable[Reals], rows: int) -> Iterator[str]:
    """Yield where labels contradict their law; `labels` are on the grid, in `label_chunks`."""
    totals, chunks = _Totals(noisy), max(1, math.ceil(rows / CHUNK_ROWS))
    problems: set[str] = set()
    for part in labels:
        totals.add(part)
        problems |= set(check_repeats(noisy.law, noisy.scale, noisy.grid, part, CHANCE / chunks))
        problems |= set(_order(noisy, part, CHANCE / chunks))
    yield from totals.problems()
    yield from sorted(problems)


def check_responses(
    labels: Iterable[Reals], rows: int, responses: tuple[float, float], scale: float
) -> Iterator[str]:
    """Yield a problem if labels are not the two numbers, or are more often one than chance allows.

    Every label is the second number with probability 1/(1 + e^{1/scale}) at least, and the first.
    """
    counts = np.zeros(2, dtype=np.int64)
    for part in labels:
        counts += [(part == response).sum() for response in responses]
    if counts.sum() != rows:
        yield "labels other than the two numbers of randomized response"
        return
    changed = 1 / (1 + math.exp(min(1 / scale, _MOST_EXPONENT)))
    if min(bdtr(count, rows, changed) for count in counts.tolist()) < CHANCE:
        yield "fewer labels of one class than random changes leave of any labels"


def check_bag_labels(
    labels: Reals, noise: Reals, grid: int, ends: tuple[Reals, Reals], design: Reals
) -> Iterator[str]:
    """Yield a problem if sums of labels contradict Gaussian noise of known deviations.

    The mean of each sum lies between its `ends`. `design` holds public columns, one row for each
    sum: however the means vary about their fit to them, they only add to the residual squares.
    """
    rows, half_step = len(labels), math.ldexp(0.5, grid)
    low, high = ends
    away = np.maximum(low - labels, labels - high) - half_step
    if rows * ndtr(-(away / noise).max()) < CHANCE:
        yield "labels further from their range than the noise can take them"
    beyond = max(int((labels < low - half_step).sum()), int((labels > high + half_step).sum()))
    if _at_least(np.array(beyond), rows, np.array(0.5)) < CHANCE:
        yield "more labels outside their range than the noise can take there"
    yield from check_noise_scatter(labels, noise, grid, design)
    yield from check_repeats(NORMAL_TAILS, float(noise.min()), grid, labels)


def check_noise_scatter(labels: Reals, noise: Reals, grid: int, design: Reals) -> Iterator[str]:
    """Yield a problem if labels vary less about their fit to public columns than the noise.

    The residual of the noise alone is χ² with rows − columns degrees of freedom, and any other
    slope than the best only adds to it.
    """
    size = np.abs(design).max(axis=0, initial=0.0)
    columns = design / np.where(size > 0, size, 1.0) / noise[:, None]
    scaled, freedom = labels / noise, design.shape[0] - design.shape[1]
    if freedom <= 0:
        return
    residual = scaled - columns @ np.linalg.lstsq(columns, scaled)[0]
    rounding = math.sqrt(len(labels)) * math.ldexp(0.5, grid) / noise.min()
    if chdtr(freedom, (float(np.linalg.norm(residual)) + rounding) ** 2) < CHANCE:
        yield "labels that vary less about their fit than the noise demands"


def untested_noise(noisy: NoisyLabels, labels: Iterable[Reals], rows: int) -> Iterator[str]:
    """Yield what `check_noise` could not see in these labels."""
    least = noisy.outside()[0][-1]
    if bdtr(0, rows, least) >= CHANCE:
        yield (
            f"whether labels carry noise: it takes {least:.2g} of {rows:,} labels out of their "
            "range, or a few more, and these are too few to tell"
        )
        return
    outside = sum(int((excess >= 0).sum()) for part in labels for excess in noisy.beyond(part))
    # the relative error of the scale that the tests might not notice; 1 if any
    if noisy.law.memoryless:
        size = _POWER - float(ndtri(SCALE_CHANCE / 2))
        error = size / math.sqrt(outside) if outside else 1.0
    else:
        # Labels at both ends may hide Δ²/4 of the missing variance.
        size = _POWER - float(ndtri(CHANCE))
        left = 1 - (noisy.width / 2) ** 2 - size * math.sqrt(2 / max(1, rows))
        error = 1 - math.sqrt(max(0.0, left))
    if error > _NOTICED:
        yield (
            f"whether noise is too small or too large by less than {min(1.0, error):.1%}: "
            f"{outside:,} of {rows:,} labels lie outside their range, and these show no smaller "
            "error for sure"
        )


class _Totals:
    """Sums over all labels, part by part."""

    def __init__(self, noisy: NoisyLabels) -> None:
        self.noisy = noisy
        self.steps = np.unique(np.ceil(_THRESHOLDS / noisy.step))
        self.rows = 0
        self.counts = np.zeros(2, np.int64)
        self.beyond = np.zeros((2, len(self.steps)), np.int64)
        self.sums = np.zeros(2)
        self.furthest = np.full(2, -1.0)
        self.moments = np.zeros(2)

    def add(self, labels: Reals) -> None:
        noisy = self.noisy
        self.rows += len(labels)
        for side, excess in enumerate(noisy.beyond(labels)):
            steps = np.sort(excess[excess >= 0])
            self.counts[side] += len(steps)
            self.beyond[side] += len(steps) - np.searchsorted(steps, self.steps)
            self.sums[side] += steps.sum()
            self.furthest[side] = max(self.furthest[side], steps[-1] if len(steps) else -1.0)
        shifted = (labels - (noisy.low + noisy.high) / 2) / noisy.scale
        self.moments += shifted.sum(), shifted @ shifted

    def problems(self) -> Iterator[str]:
        """Yield what these sums contradict: tests 1 and 2."""
        noisy, rows = self.noisy, self.rows
        # how many labels are outside: below, above and on either side
        reached = noisy.law.tail(noisy.gaps + np.maximum(0.0, self.furthest) * noisy.step)
        if 2 * rows * reached.min() < CHANCE:
            yield "labels further from their range than the noise can take them"
        (least, most), counts = noisy.outside(), np.append(self.counts, self.counts.sum())
        if (bdtr(counts, rows, least) < CHANCE).any():
            yield "labels that stray less from their range than the noise demands"
        if (_at_least(counts, rows, most) < CHANCE).any():
            yield "more labels outside their range than the noise can take there"
        # how far they are out
        bounds = np.array([noisy.survival(side, self.steps) for side in (0, 1)])
        least = np.vstack([bounds[:, 0], bounds[:, 0].min(axis=0)])
        most = np.vstack([bounds[:, 1], bounds[:, 1].max(axis=0)])
        beyond = np.vstack([self.beyond, self.beyond.sum(axis=0)])
        few = bdtr(beyond, counts[:, None], least)
        many = _at_least(beyond, counts[:, None], most)
        if beyond.size * min(few.min(), many.min()) < CHANCE:
            yield "labels outside their range at distances that do not follow the law of the noise"
        yield from self._size_laplace() if noisy.law.memoryless else self._size_gaussian()

    def _size_laplace(self) -> Iterator[str]:
        step, chances = self.noisy.step, (CHANCE, CHANCE, SCALE_CHANCE / 2)
        counts, sums = (np.append(each, each.sum()) for each in (self.counts, self.sums))
        for count, total, chance in zip(counts, sums, chances, strict=True):
            if count and betainc(count, total + 1, -math.expm1(-step)) < chance:
                yield "labels outside their range that are nearer to it than the noise demands"
            if count and total and betainc(total, count, math.exp(-step)) < chance:
                yield "labels outside their range that are further from it than the noise allows"

    def _size_gaussian(self) -> Iterator[str]:
        rows, rounding = self.rows, math.sqrt(self.rows) * self.noisy.step / 2
        total, square = self.moments
        spread = math.sqrt(max(0.0, square - total**2 / max(1, rows))) + rounding
        if rows > 1 and chdtr(rows - 1, spread**2) < CHANCE:
            yield "labels that differ less from one another than the noise demands"
        # Chernoff's bound of P[noncentral χ² ≥ reach]: the best exponent θ is (1 − 1/u)/2 with
        # noncentrality·u² + rows·u = reach.
        reach = max(0.0, math.sqrt(square) - rounding) ** 2
        noncentrality = rows * (self.noisy.width / 2) ** 2
        if reach > rows + noncentrality:
            u = 2 * reach / (rows + math.sqrt(rows**2 + 4 * noncentrality * reach))
            theta = (1 - 1 / u) / 2
            log_chance = noncentrality * theta * u + rows / 2 * math.log(u) - theta * reach
            if log_chance < math.log(CHANCE):
                yield "labels that differ more from one another than range and noise allow"


def check_repeats(
    law: NoiseTails, scale: float, grid: int, labels: Reals, chance: float = CHANCE
) -> Iterator[str]:
    """Yield a problem if values repeat more often than noise lets labels share a grid cell.

    Nothing is assumed about where the labels lie; the noise may have a larger scale, too.
    """
    rows, step = len(labels), math.ldexp(1.0, grid) / scale
    if not rows:
        return
    _, counts = np.unique(labels, return_counts=True)
    cell = 1 - 2 * float(law.tail(np.array(step / 2)))
    if rows * _at_least(counts.max() - 1, rows - 1, np.array(cell)) < chance:
        yield "one value more often than the noise can produce it"
    # All labels equal and at a border between cells. At another place, or with a larger scale,
    # there are no fewer values but for a few cells about the middle, for which 8 is enough.
    tails = law.tail(np.arange(math.ceil(45 / step), dtype=np.float64) * step)
    expected = 2 * -np.expm1(rows * np.diff(tails)).sum() - 8
    if len(counts) < expected - math.sqrt(-0.5 * rows * math.log(chance)):
        yield "fewer different values than the noise can produce"


def _order(noisy: NoisyLabels, labels: Reals, chance: float) -> Iterator[str]:
    """Yield a problem if distances from the range depend on those of earlier rows."""
    rows = len(labels)
    centred, inexact, outside = np.zeros(rows), 0.0, np.zeros(rows, bool)
    everywhere = np.arange(0.0, 12.0, 1 / 64) / noisy.step
    for side, excess in enumerate(noisy.beyond(labels)):
        beyond = excess >= 0
        outside |= beyond
        # The middle of the cell's two ends makes the mean of a rank exactly 1/2.
        ends = [noisy.survival(side, excess[beyond] + more) for more in (0.0, 1.0)]
        least, most = (np.mean(pair, axis=0) for pair in zip(*ends, strict=True))
        centred[beyond] = (least + most) / 2 - 0.5
        between = np.subtract(*reversed(noisy.survival(side, everywhere)))
        inexact = max(inexact, 1.05 * float(between.max()) / 2)
    # Uniform ranks, rounded or not, are sub-Gaussian with their variance 1/12; others with 1/4. So
    # exp(λ·S − λ²·variance·V/2) is a supermartingale, S the sum of products of pairs and V that of
    # the squares of their first factors. λ is the best one for the V to be expected of the pairs.
    variance = 1 / 12 if noisy.law.memoryless else 1 / 4
    mask = outside.astype(np.float64)
    pairs = np.rint(_correlation(mask, mask))
    apart = np.arange(1.0, len(pairs) + 1)  # Σ 1/(k(k + 1)) = 1 shares the chance among distances
    surprise = np.log(2 * apart * (apart + 1) / chance)
    best = np.sqrt(24 * surprise / (variance * np.maximum(pairs, 1.0)))
    far = surprise / best + best * variance * _correlation(centred**2, mask) / 2
    if (np.abs(_correlation(centred, centred)) > far + pairs * inexact / 2 + 1e-6).any():
        yield "labels outside their range at distances that depend on those of other rows"


def _correlation(first: Reals, second: Reals) -> Reals:
    """Return sums of products of numbers that are 1, 2, … rows apart."""
    length = 1 << (2 * len(first)).bit_length()
    product = np.conj(np.fft.rfft(first, length)) * np.fft.rfft(second, length)
    return np.asarray(np.fft.irfft(product, length)[1 : max(1, len(first))])


def _at_least(count: NDArray[np.int64], rows: NDArray[np.int64] | int, chance: Reals) -> Reals:
    """Return P[binomial ≥ count]."""
    return np.where(count > 0, bdtrc(np.maximum(count, 1) - 1, rows, chance), 1.0)
