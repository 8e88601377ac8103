"""Exactly rounded noise on a public grid: the only way by which labels reach a release.

Everything published that depends on labels is a number of the form

    round(mean + scale·noise)   to a multiple of a public power of two,

where mean and/or scale depend on labels and the noise is N(0,1) or Laplace's e^{−|x|}/2 (radial
noise makes several numbers at once, see `sample_rounded_radial`). The rounding is that of the
*ideal real number*, so what is published is post-processing of the ideal mechanism and the
certificate holds with no numerical slack (plain float64 sums leave gaps in the set of reachable
numbers, and the gaps move when a label does).

Of two classes a release may publish each, changed at random, instead (`randomized_response`).

Pure ε survives likewise. If a label moves the mean by at most Δ and Laplace noise has the public
scale b = Δ/ε, then at every real x the densities of two neighbours are in the ratio
exp((|x − mean'| − |x − mean|)/b) ≤ e^{Δ/b} = e^ε. A cell is an interval of x with public ends: its
probability is the integral of the density over it, so that the ratio of two neighbours is at most
e^ε for every cell and every set of cells, with δ = 0, and no cell is impossible. So it is with
radial noise, of density ∝ e^{−‖x‖/b}, on several numbers that a label moves by at most Δ together.

How: the noise is the inverse distribution function at a uniform p with endless random
bits, of which the first 64 are drawn at once. Float64 with a rigorous error bound decides
almost every cell. The few draws whose cell is in doubt (about one in 1e9) are settled by
comparing p with the distribution at the cell's border in ball arithmetic, on exact numbers, with
as many further bits as it takes.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.errors import PlanError
from labeldp.sampling.streams import Randomness, words

FINENESS = 10
"""A grid step is 2**-10 of the scale it serves: rounding adds q²/12, 1e-7 of the variance."""

_INVERSE_ERROR = 2.0**-44
"""Bound on the relative error of scipy's ndtri and numpy's log (below 2**-50; see tests)."""

_ULP = 2.0**-52
_FIRST_PRECISION = 192
_MOST_BITS = 64 * 16
_ARB_LOCK = threading.RLock()
"""The precision of ball arithmetic is one for all threads, so one at a time works with balls."""

Exact = Callable[[int, int], tuple[Any, Any]]
"""(row, bits of precision) → (mean, scale) as arb balls that contain the exact values."""

Reals = NDArray[np.float64]
Scale = float | Reals


@dataclass(frozen=True)
class NoiseLaw:
    """A law symmetric about 0, of scale 1.

    `inverse`: the x < 0 with P[noise < x] = p, for p < 1/2, in doubles, to a relative
    `_INVERSE_ERROR`; its slope must be at most 1.26/p.
    `below`: P[noise < x] of a ball x < 0, as a ball; beyond 0 any number from 1/2 on.
    """

    inverse: Callable[[Reals], Reals]
    below: Callable[[Any], Any]


def _normal_inverse(p: Reals) -> Reals:
    from scipy.special import ndtri

    return np.asarray(ndtri(p))


def _normal_below(x: Any) -> Any:
    from flint import arb

    return (-x / arb(2).sqrt()).erfc() / 2


NORMAL = NoiseLaw(_normal_inverse, _normal_below)
LAPLACE = NoiseLaw(lambda p: np.log(2.0 * p), lambda x: x.exp() / 2)


def grid_for(scale: float) -> int:
    """Return the public grid for numbers of this scale: the exponent e of the step 2**e."""
    return math.floor(math.log2(scale)) - FINENESS


def ball(value: float | Fraction) -> Any:
    """Return an arb ball of the present precision that contains this very number."""
    from flint import arb, fmpq

    exact = Fraction(value)
    return arb(fmpq(exact.numerator, exact.denominator))


def sample_rounded(
    mean: Reals,
    mean_error: Reals,
    scale: tuple[Scale, Scale],
    grid: int,
    randomness: Randomness,
    exact: Exact,
    noise: NoiseLaw = NORMAL,
) -> Reals:
    """Return round(mean + scale·noise) to multiples of 2**grid, one independent draw per mean.

    `mean` ± `mean_error` and `scale` = (low, high), one pair for all or one for each, enclose the
    exact values that `exact` gives to any precision.
    """
    step = math.ldexp(1.0, grid)
    bits = words(randomness.labels, len(mean))
    # The first bit says which half of the law, the other 63 which p < 1/2 within it: so small p
    # keep their relative precision on both sides.
    upper_half = (bits >> np.uint64(63)).astype(bool)
    tail = (bits & np.uint64(2**63 - 1)).astype(np.float64)  # p·2**64, p < 1/2
    unit = noise.inverse((tail + 0.5) * 2.0**-64)
    unit *= np.where(upper_half, -1.0, 1.0)

    low, high = scale
    middle = 0.5 * (low + high)
    shift = middle * unit
    value = mean + shift
    # dΦ⁻¹/dp = 1/φ ≤ 1.26/p for p ≤ 1/2, and 1/p for Laplace, so 64 bits pin the noise to
    # 1.3/tail (relative to rounding `tail` to a double: 2 ulp more).
    with np.errstate(divide="ignore"):
        unit_error = 1.3 / tail + (_INVERSE_ERROR * np.abs(unit) + 4 * _ULP)
    # What may be wrong, term by term: the mean, the noise, the scale, and the roundings above.
    error = (
        mean_error
        + high * unit_error
        + (high - low) * np.abs(unit)
        + 4 * _ULP * (np.abs(mean) + np.abs(shift))
    )
    scaled = value / step
    cell = np.rint(scaled)
    # the last term of `error` leaves no cell certain that is not an exact double (from 2**49 on)
    certain = np.abs(scaled - cell) + error / step < 0.5
    for row in np.flatnonzero(~certain).tolist():
        cell[row] = _cell_in_doubt(row, int(bits[row]), unit[row], grid, randomness, exact, noise)
    # `rint` makes −0.0 of what lies just below 0: its sign would tell more than the cell does.
    return np.asarray(cell * step + 0.0)


def sample_rounded_radial(
    mean: Reals, mean_error: Reals, scale: float, grid: int, randomness: Randomness, exact: Exact
) -> Reals:
    """Return round(mean + scale·x) to multiples of 2**grid, one number per mean.

    The vector x has the density ∝ e^{−‖x‖}: it is a uniform direction times a radius of the law
    Gamma(d). So is χ·N(0, I) with d+1 degrees of freedom for χ: the norm of N(0, I) has d, and
    χ_d·χ_{d+1} is Gamma(d) by the duplication formula of the gamma function. Given χ, which nobody
    sees, the numbers are independent normals; those in doubt get more bits of the same χ.
    """
    chi = _ChiScale(len(mean) + 1, randomness)

    def exact_given_chi(row: int, precision: int) -> tuple[Any, Any]:
        centre, unit = exact(row, precision)
        return centre, unit * chi.ball(precision)

    low, high = chi.bounds()
    return sample_rounded(
        mean, mean_error, (scale * low, scale * high), grid, randomness, exact_given_chi, NORMAL
    )


def _cell_in_doubt(
    row: int,
    word: int,
    unit: float,
    grid: int,
    randomness: Randomness,
    exact: Exact,
    noise: NoiseLaw,
) -> float:
    """Return the cell of mean + scale·noise by ball arithmetic, as many random bits as it takes.

    `word` are the first 64 bits: which half of the law, and p < 1/2 within it. `unit` is the noise
    in doubles, near which the search begins.
    """
    from flint import arb

    upper_half = bool(word >> 63)
    with _precision(_FIRST_PRECISION):
        mean, scale = exact(row, _FIRST_PRECISION)
        place = (mean + scale * float(unit)) * arb(2) ** -grid
        cell = int((place + arb(0.5)).mid().floor().unique_fmpz())

    uniform = _LazyUniform(word & (2**63 - 1), randomness)

    def is_below(half_cells: int) -> bool:
        """Return whether the number lies below a border, counted in half cells."""

        def at_border(precision: int) -> Any:
            """Return the p at which the number would be there."""
            mean, scale = exact(row, precision)
            distance = (arb(half_cells) * arb(2) ** (grid - 1) - mean) / scale
            # in the upper half the number is mean − scale·F⁻¹(p)
            return noise.below(-distance if upper_half else distance)

        return uniform.is_below(at_border) is not upper_half

    # The cell of k is between the borders k − 1/2 and k + 1/2.
    while is_below(2 * cell - 1):
        cell -= 1
    while not is_below(2 * cell + 1):
        cell += 1
    return float(cell)


@contextmanager
def _precision(bits: int) -> Iterator[None]:
    """Compute with balls of this many bits inside the block."""
    from flint import ctx

    with _ARB_LOCK:
        saved = ctx.prec
        ctx.prec = bits
        try:
            yield
        finally:
            ctx.prec = saved


class _LazyUniform:
    """A uniform p in [tail, tail+1]·2**-length that gets more random bits on demand."""

    def __init__(self, word: int, randomness: Randomness) -> None:
        self.tail, self.length, self._randomness = word, 64, randomness

    def is_below(self, border: Callable[[int], Any]) -> bool:
        """Return whether p is below a number; `border` gives a ball of it with so many bits."""
        from flint import arb

        while self.length <= _MOST_BITS:
            precision = _FIRST_PRECISION + 2 * self.length
            with _precision(precision):
                ball, unit = border(precision), arb(2) ** -self.length
                # Balls compare as true only if every number in them does.
                if arb(self.tail + 1) * unit <= ball:
                    return True
                if arb(self.tail) * unit >= ball:
                    return False
            word = int(words(self._randomness.refinement, 1)[0])
            self.tail, self.length = (self.tail << 64) | word, self.length + 64
        raise PlanError("a number could not be rounded; nothing was published, run again")


class _ChiScale:
    """One χ with `freedom` degrees: χ² = −2·log(p1·p2⋯), of uniforms that get bits on demand.

    An odd degree is the square of a normal, −2·log(p)·cos²(2πq) (Box and Muller).
    """

    def __init__(self, freedom: int, randomness: Randomness) -> None:
        self._randomness, self._pairs, self._odd = randomness, freedom // 2, freedom % 2
        self._tails = words(randomness.labels, self._pairs + 2 * self._odd).astype(object)
        self._length = 64  # each uniform in [tail, tail+1]·2**-length
        self._settle()

    def bounds(self) -> tuple[float, float]:
        """Return doubles that enclose χ, with room for a product."""
        with _precision(_FIRST_PRECISION):
            low, high = self._ball.lower(), self._ball.upper()
            return float(low) * (1 - 4 * _ULP), float(high) * (1 + 4 * _ULP)

    def ball(self, precision: int) -> Any:
        """Return a ball that contains χ, from as many bits of each uniform as the precision has."""
        while self._length < precision:
            self._extend()
            self._settle()
        return self._ball

    def _extend(self) -> None:
        more = words(self._randomness.refinement, len(self._tails)).astype(object)
        self._tails, self._length = (self._tails << 64) | more, self._length + 64

    def _settle(self) -> None:
        """Compute the ball from the bits that there are."""
        from flint import arb

        while not self._tails.all():  # log needs a uniform above 0
            self._extend()
        with _precision(self._length + _FIRST_PRECISION):
            unit = arb(2) ** -self._length
            balls = [arb(tail).union(arb(tail + 1)) * unit for tail in map(int, self._tails)]
            total = math.prod(balls[: self._pairs], start=arb(1)).log()
            if self._odd:
                last, angle = balls[self._pairs :]
                total += last.log() * (2 * angle * arb.pi()).cos() ** 2
            self._ball = (-2 * total).sqrt()


def randomized_response(
    values: NDArray[np.bool_], scale: float, randomness: Randomness
) -> NDArray[np.bool_]:
    """Return every value, or the opposite with a probability of 1/(1 + e^{1/scale}) or a bit more.

    A value is kept if 64 random bits, as a number, lie below a public threshold: with a probability
    that is exactly threshold·2**-64, so that what is published has pure ε ≤ 1/scale.
    """
    kept = words(randomness.labels, len(values)) < np.uint64(keep_threshold(scale))
    return np.asarray(values == kept)


def keep_threshold(scale: float) -> int:
    """Return 2**64/(1 + e^{−1/scale}), rounded down: to the private side."""
    from flint import arb

    with _precision(_FIRST_PRECISION):
        share = arb(2) ** 64 / (1 + (-1 / arb(scale)).exp())
        return min(int(share.lower().floor().unique_fmpz()), 2**64 - 1)
