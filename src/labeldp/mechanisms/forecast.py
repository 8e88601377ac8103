"""How good a linear fit on aggregates will be, in closed form (theory §5).

Least squares on m aggregates of rank-d features has, over all rows, a squared error

    val − opt = (σ² + s²)·(d/(m−d+1))·F(d, m−d+1),

with σ² = opt the residual of the fit with all labels and s² the added floor. Only the
Gaussian weights matter: no assumption on the data. The mean of the ratio is d/(m−d−1).
That is exact for wtd-FLAg; for bags of k rows, with k in place of n, it holds as far as bags
resemble each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from labeldp.releases.certificate import AddedError

QUANTILES = (0.05, 0.5, 0.95)


class Spread(NamedTuple):
    """The mean over releases of what privacy adds, and its `QUANTILES`."""

    mean: float
    low: float
    median: float
    high: float

    def times(self, factor: float) -> Spread:
        return Spread(*(each * factor for each in self))

    def to_json(self) -> dict[str, float | None]:
        """Return the values for a certificate; what is infinite is None."""
        names = (f"excess_{name}" for name in self._fields)
        values = (value if math.isfinite(value) else None for value in self)
        return dict(zip(names, values, strict=True))


@dataclass(frozen=True)
class Forecast:
    """Mean squared error per row of a least-squares fit, for a residual mean square γ.

    `excess_*` are relative to γ: 0.01 says the fit is 1 % worse than one with all labels. `added_*`
    are the same in squared label units: what privacy adds to the mean square of a prediction's
    error over all rows. `added_variance` is the noise that would be added to an aggregate label.
    """

    residual_ms: float
    excess_mean: float
    excess_low: float
    excess_median: float
    excess_high: float
    added_variance: float
    added_exact: bool
    """Whether `added_*` hold for every residual mean square γ."""
    residual_source: str
    """Where γ comes from: "guess" or "stated"."""
    added_mse_default_fit: float
    """What privacy adds to the predictions of the default fit: `added_mse`, or less where it
    shrinks them, for labels whose explained part is spread evenly and of known size: not to know
    that costs a fit a little more where noise is as large. Where noise is shaped for fits that
    shrink, for labels as their prior has them."""
    selection_score: float
    """What plans are compared by: `added_mse`. Where noise is shaped for fits that shrink, that of
    the shape for least squares, less the share that is expected to be saved."""

    @classmethod
    def of(
        cls,
        excess: Spread,
        residual_ms: float,
        added_variance: float,
        residual_source: str,
        *,
        exact: bool,
    ) -> Forecast:
        """Return a forecast for fits that do not shrink: for them `added_mse` alone counts."""
        added = excess.mean * residual_ms
        return cls(residual_ms, *excess, added_variance, exact, residual_source, added, added)

    @property
    def added_mse(self) -> float:
        return self.excess_mean * self.residual_ms

    @property
    def added_low(self) -> float:
        return self.excess_low * self.residual_ms

    @property
    def added_high(self) -> float:
        return self.excess_high * self.residual_ms

    @property
    def mean_mse(self) -> float:
        """Mean squared error to be expected of the private fit."""
        return self.residual_ms * (1 + self.excess_mean)

    def to_json(self) -> dict[str, Any]:
        """Return plain values under the names of plan files; what is infinite is null."""
        values = {_JSON_NAMES.get(name, name): value for name, value in asdict(self).items()} | {
            "best_mse": self.residual_ms,
            "mean_mse": self.mean_mse,
            "added_ms": self.added_mse,
            "added_low": self.added_low,
            "added_high": self.added_high,
        }
        return {name: None if value == math.inf else value for name, value in values.items()}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Forecast:
        """Return what `to_json` wrote."""
        values: dict[str, Any] = {}
        for each in fields(cls):
            value = document[_JSON_NAMES.get(each.name, each.name)]
            values[each.name] = math.inf if value is None else value
        return cls(**values)


_JSON_NAMES = {"added_mse_default_fit": "fitted_ms", "selection_score": "weighed_ms"}
"""Fields that have another name in plan files."""


def forecast(
    *,
    rows: int,
    rank: int,
    bags: int,
    residual_ms: float,
    added_variance: float,
    residual_source: str = "stated",
) -> Forecast:
    """Forecast the error of a least-squares fit over releases of weighted sums of all rows.

    `added_variance` is that of the noise on every aggregate label. Without a finite mean the
    forecast is infinite.
    """
    excess = fit_excess(rank, bags).times(1 + added_variance / (rows * residual_ms))
    return Forecast.of(excess, residual_ms, added_variance, residual_source, exact=False)


def explained_ms(width: float, stated_ms: float = 0.0) -> float:
    """Return what features are taken to explain of favourable labels, mean square.

    That is half of the variance Δ²/12 of labels spread evenly over their range of width Δ, and no
    more than a stated residual leaves of the Δ²/4 that labels in the range can vary by.
    """
    return max(0.0, min(width**2 / 24, width**2 / 4 - stated_ms))


def shrunken_ms(
    slopes: Sequence[float], mean: float, *, rows: int, width: float, explained: float
) -> float:
    """Return what noise adds to shrunken predictions of all rows, if so much is explained, evenly.

    Of b ~ N(0, τI) known through noise of variance ν the posterior mean misses τν/(τ+ν): `slopes`
    are the ν of all directions but the mean's, `mean` is its own, with the prior of theory §10.
    """
    free, each = rows * width**2 / 12, rows * explained / max(1, len(slopes))
    missed = sum(each * noise / (each + noise) for noise in slopes) if explained else 0.0
    return (missed + mean * free / (free + mean)) / rows


def mean_excess(rank: int, bags: int) -> float:
    """Return E[(val − opt)/opt] without added noise: d/(m−d−1), infinite for m ≤ d+1."""
    return rank / (bags - rank - 1) if bags > rank + 1 else math.inf


def bag_sizes(first: int, growth: float, most: int) -> Iterator[int]:
    """Yield sizes of bags whose forecasts are compared: each so many times the one before."""
    size = float(first)
    while int(size) <= most:
        yield int(size)
        size *= growth


def excess_quantile(rank: int, bags: int, probability: float) -> float:
    """Return a quantile of (val − opt)/opt without added noise; infinite for m < d.

    With x of the Beta law of d/2 and (m−d+1)/2, x/(1−x) has the law of d/(m−d+1)·F(d, m−d+1).
    """
    from scipy.special import betaincinv

    if bags < rank:
        return math.inf
    part = betaincinv(0.5 * rank, 0.5 * (bags - rank + 1), probability)
    return float(part / (1.0 - part))


def sketched_error(
    rank: int,
    bags: int,
    spread_ms: tuple[float, float],
    *,
    width: float,
    residual_ms: float | None = None,
    noise_ms: float = 0.0,
    basis: str,
) -> AddedError:
    """Return what a fit of aggregates adds, in label units, for residuals between two mean squares.

    `spread_ms` bounds the residual mean square, `residual_ms` is a measured one, `noise_ms` what
    noise adds to it for each row of an aggregate. Relative to a residual that may be 0 it is
    anything.
    """
    from labeldp.releases.certificate import AddedError  # late: it is slow to import

    def root(mean_square: float) -> float | None:
        return math.sqrt(mean_square) if math.isfinite(mean_square) else None

    excess = fit_excess(rank, bags)
    mean = math.inf if residual_ms is None else excess.mean * (residual_ms + noise_ms)
    expected = root(mean)
    has_residual = bool(expected and residual_ms and spread_ms[0])
    return AddedError(
        added_rms=expected,
        added_rms_low=root(excess.low * (spread_ms[0] + noise_ms)),
        added_rms_high=root(excess.high * (spread_ms[1] + noise_ms)),
        added_of_range=None if expected is None else expected / width,
        excess_of_residual=mean / residual_ms if residual_ms and has_residual else None,
        added_basis=basis,
    )


def fit_excess(rank: int, bags: int) -> Spread:
    """Return mean and quantiles of (val − opt)/opt without added noise."""
    low, median, high = (excess_quantile(rank, bags, q) for q in QUANTILES)
    return Spread(mean_excess(rank, bags), low, median, high)
