"""The residual floor: how a claim states it, how a run establishes it, how it is verified.

Both mechanisms with secret weights rest on it (theory §6). Their weights hide a label only if the
labels vary about their fit: the residual sum of squares must be at least a `floor`. wtd-flag needs
it of the whole table, sampled-wtd-flag of every bag. There are three ways to establish a floor:

    declared        the curator asserts it; the run checks it and may refuse
    added           noise of that variance is added to every aggregate label: unconditional
    measured+added  the root of the residual is published with noise and shows a floor, and what is
                    missing from the one needed is added as noise (the default)

Earlier releases may have a `measured` floor: measured, and no noise added.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.sketch import (
    DatasetBounds,
    Measurement,
    added_variance,
    default_measurement,
)
from labeldp.display import Private
from labeldp.errors import PlanError
from labeldp.exact.label_sums import ExactLeastSquares, LabelGrid
from labeldp.mechanisms import checks
from labeldp.mechanisms.base import Mechanism, SketchedLabels
from labeldp.mechanisms.checks import NORMAL_TAILS, check_repeats
from labeldp.mechanisms.design_summary import SAMPLER_ROUNDING, DesignSummary, inflation_for
from labeldp.mechanisms.forecast import Forecast, forecast, sketched_error
from labeldp.mechanisms.options import AccountQuestion, FloorOptions, PlanRequest
from labeldp.releases.certificate import AddedError, Claim, FloorOutcome, read_common_fields
from labeldp.releases.pending import AGGREGATES
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness

if TYPE_CHECKING:
    from labeldp.releases.files import Release

Reals = NDArray[np.float64]

# ---- claim


class FloorMode(StrEnum):
    """The ways to establish a floor."""

    DECLARED = "declared"
    MEASURED = "measured"
    ADDED = "added"
    MEASURED_ADDED = "measured+added"

    @property
    def measures(self) -> bool:
        """Whether a part of the budget is spent on measuring σ."""
        return self in (FloorMode.MEASURED, FloorMode.MEASURED_ADDED)

    @property
    def adds(self) -> bool:
        """Whether noise may be added to aggregate labels."""
        return self in (FloorMode.ADDED, FloorMode.MEASURED_ADDED)


_NINETY = 1.645
"""Standard deviations on either side that hold nine in ten."""
_MEASURED = (
    "the root of {residual} was published with Gaussian noise; it exceeds lower_bound but for "
    "probability measurement_slack; both are priced in the curve"
)
_BASIS = {
    FloorMode.DECLARED: "ASSUMPTION: the curator asserts from public knowledge that {residual} is "
    "at least `needed`; the run checked it, and that it went ahead is one bit about the labels "
    "that is not accounted for",
    FloorMode.ADDED: "noise of variance added_variance in every aggregate label: unconditional",
    FloorMode.MEASURED: _MEASURED,
    FloorMode.MEASURED_ADDED: _MEASURED
    + "; what was missing from `needed` was added as noise: unconditional",
}


@dataclass(frozen=True, kw_only=True)
class FloorClaim(Claim):
    """A claim that rests on a residual sum of squares of at least `floor`."""

    floor: float
    mode: FloorMode
    measurement: Measurement | None
    max_leverage: float | None
    """The largest leverage of a row, in the whole table or in any bag."""
    inflation: float

    @property
    def facts(self) -> DatasetBounds:
        """What is known of the table, or of every bag."""
        return DatasetBounds(
            self.rows,
            self.label_range,
            self.rank,
            self.max_leverage,
            self.intercept,
            self.inflation,
        )

    @property
    def used_facts(self) -> DatasetBounds:
        """What the accountant uses of them: only `exact` uses the leverage."""
        return self.facts if self.accountant == "exact" else replace(self.facts, max_leverage=None)

    @property
    def superseded(self) -> str:
        if self.mode is FloorMode.MEASURED:
            return "a floor is measured without added noise no more (`floor='measured+added'`)"
        return ""

    def residual_ms(self, outcome: FloorOutcome | None) -> tuple[float | None, tuple[float, float]]:
        """Return the residual mean square as it was measured, if it was, and bounds of it.

        Labels in a range leave no more than its half, squared. A measured root is known but for
        noise of a public deviation: the bounds are those of a 90 % interval.
        """
        most, rows = self.largest_label**2, self.facts.rows
        if self.mode is FloorMode.DECLARED:
            return None, (min(self.floor / rows, most), most)
        if self.measurement is None or outcome is None or outcome.measured is None:
            return None, (0.0, most)
        noise, root = self.measurement.noise(self.width), max(0.0, outcome.measured)
        middle = max(0.0, root**2 - noise**2) / rows
        down = max(0.0, root - _NINETY * noise) ** 2 / rows
        up = (root + _NINETY * noise) ** 2 / rows
        return min(most, middle), (min(most, down), min(most, up))

    @property
    def grid(self) -> int:
        """Return the public grid of aggregate labels: the exponent of its step."""
        return rounded_noise.grid_for(math.sqrt(self.floor))

    def needed_floor(self, *, certified: bool = True) -> float:
        """Return the least floor at which the budget is kept."""
        profile = self.privacy_profile
        return calibrate(profile, "floor", self.epsilon, self.delta, certified=certified)

    def with_calibrated_floor(self, residual_ms: float | None, whose: str, cure: str) -> Self:
        """Return the claim with the floor that it needs, or with all that was declared."""
        needed, rows = self.needed_floor(), self.facts.rows
        if residual_ms is None:
            return replace(self, floor=needed)
        if not needed <= residual_ms * rows:
            raise PlanError(
                f"{whose} need a residual mean square of {needed / rows:.6g}, more than the "
                f"declared {residual_ms:.6g}; {cure} or use `floor='measured+added'`"
            )
        return replace(self, floor=residual_ms * rows)

    def differences(self, leverage: float, error_bound: float) -> Iterator[str]:
        """Say in what a table, or its bags, differ from the facts that the claim rests on."""
        if self.max_leverage is not None and not leverage <= self.max_leverage:
            claimed = f"{self.max_leverage:.6g}"
            yield f"the largest leverage is {leverage:.6g}, the certificate says {claimed}"
        if not inflation_for(error_bound) <= self.inflation:
            yield "the certificate's inflation is too small for these features"

    def expected_lower_bound(self, residual_ms: float) -> float:
        """Return the residual sum of squares that a run shows, if this is the mean square."""
        residual = residual_ms * self.facts.rows
        if self.measurement is None:
            return residual
        return self.measurement.lower_bound(residual**0.5, 0.0, self.width) ** 2

    def expected_added_variance(self, residual_ms: float) -> float:
        """Return the noise that a run adds to reach the floor, if this is the mean square."""
        if self.mode is FloorMode.ADDED:
            return self.floor
        missing = self.floor - self.expected_lower_bound(residual_ms)
        return max(0.0, missing) if self.mode.adds else 0.0

    def forecast(self, options: FloorOptions) -> Forecast:
        residual_ms = options.residual(self.width)
        return forecast(
            rows=self.facts.rows,
            rank=self.rank,
            bags=self.bags,
            residual_ms=residual_ms,
            added_variance=self.expected_added_variance(residual_ms),
            residual_source=options.residual_source,
        )

    def added_error(self, outcome: FloorOutcome | None) -> AddedError:
        """Return (σ² + s²)·d/(m−d−1) over the rows, with σ² as it was measured (theory §6)."""
        measured, bounds = self.residual_ms(outcome)
        residual = "the residual as floor.measured shows it"
        if measured is None:
            residual = "bounds for any residual that the label range allows"
        return sketched_error(
            self.rank,
            self.bags,
            bounds,
            width=self.width,
            residual_ms=measured,
            noise_ms=(outcome.added_variance if outcome else 0.0) / self.facts.rows,
            basis=f"{residual}, and floor.added_variance",
        )

    def label_noise_std(self, outcome: FloorOutcome | None) -> float | None:
        """Return the deviation of the added noise; secret weights hide labels beside it."""
        return None if outcome is None else math.sqrt(outcome.added_variance)

    def floor_fields(self, residual: str) -> dict[str, Any]:
        """Return facts and floor as plain values; `residual` says of what the floor is."""
        measurement = self.measurement
        return {
            "max_leverage": self.max_leverage,
            "floor": {
                "mode": self.mode.value,
                "basis": _BASIS[self.mode].format(residual=residual),
                "needed": self.floor,
                "measurement_mu": measurement.mu if measurement else None,
                "measurement_slack": measurement.slack if measurement else None,
                "measurement_noise": measurement.noise(self.width) if measurement else None,
            },
            "inflation": self.inflation,
        }


def floor_claim_fields(document: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of `FloorClaim`, from a plan or certificate."""
    floor, measurement = document["floor"], None
    if floor["measurement_mu"] is not None:
        measurement = Measurement(floor["measurement_mu"], floor["measurement_slack"])
    return {
        **read_common_fields(document),
        "floor": float(floor["needed"]),
        "mode": FloorMode(floor["mode"]),
        "measurement": measurement,
        "max_leverage": document["max_leverage"],
        "inflation": float(document["inflation"]),
    }


# ---- planning


def planned_fields(
    request: PlanRequest[Any], design: DesignSummary, labels: int = 1
) -> dict[str, Any]:
    """Return the fields of a claim whose floor is still to be calibrated.

    `labels` may change at once: the rows of a person.
    """
    mode, measurement = FloorMode(request.options.floor), None
    if mode.measures:
        measurement = default_measurement(request.epsilon, request.delta, labels)
    return {
        **design.claim_fields(request),
        "floor": 1.0,
        "mode": mode,
        "measurement": measurement,
        "max_leverage": design.facts.max_leverage,
        "inflation": design.facts.inflation,
    }


def account_facts(question: AccountQuestion, rows: int) -> dict[str, DatasetBounds]:
    """Return what each accountant may use of a table, or of a bag, of so many rows."""
    facts = DatasetBounds(rows, question.label_range, question.features, centred=question.centred)
    known = {"exact-worst-case": facts}
    if question.max_leverage is not None:
        question.needed("features")
        known["exact"] = replace(facts, max_leverage=question.max_leverage)
    return known


# ---- run


def establish_floor(
    claim: FloorClaim,
    residuals: Sequence[ExactLeastSquares],
    labels: LabelGrid,
    randomness: Randomness,
) -> FloorOutcome:
    """Establish the floor under the smallest residual as the claim says, or refuse.

    This is the only choice that a run makes after it has seen labels. What it depends on, the
    measured root, is published with noise, and the cost of that is part of the claim.
    """
    measured = None
    if claim.mode is FloorMode.DECLARED:
        smallest, _ = _smallest(residuals)
        unit = math.ldexp(1.0, 2 * labels.exponent)
        if not float(smallest) * unit * (1 - 2.0**-40) >= claim.floor:
            raise PlanError(
                "the declared residual floor does not hold for these labels (they may even lie in "
                "the span of the features); declare less or use `floor='measured+added'` (this "
                "refusal tells one bit about the labels)"
            )
    elif claim.measurement is not None:
        noise = claim.measurement.noise(claim.width)
        measured = measure_residual(
            residuals, labels, noise, rounded_noise.grid_for(noise), randomness
        )
    return floor_outcome(claim, measured)


def floor_outcome(claim: FloorClaim, measured: float | None) -> FloorOutcome:
    """Return what follows from a measured root: its lower bound, and the noise that is missing."""
    if claim.mode is FloorMode.ADDED:
        return FloorOutcome(added_variance=claim.floor)
    if claim.mode is FloorMode.DECLARED:
        return FloorOutcome()
    if claim.measurement is None or measured is None:
        raise PlanError(f"a {claim.mode.value} floor needs a measurement; plan again")
    width = claim.width
    grid = rounded_noise.grid_for(claim.measurement.noise(width))
    shown = claim.measurement.lower_bound(measured, math.ldexp(0.5, grid), width)
    return FloorOutcome(measured, shown, added_variance(claim.floor, shown))


def measure_residual(
    residuals: Sequence[ExactLeastSquares],
    labels: LabelGrid,
    noise: float,
    grid: int,
    randomness: Randomness,
    law: rounded_noise.NoiseLaw = rounded_noise.NORMAL,
) -> float:
    """Return σ̂ = σ + noise·x, exactly rounded: σ the smallest root, x of the law (theory §6.2).

    σ moves by at most Δ when one label does, because it is a distance to a subspace.
    """
    scale = math.ldexp(noise, -labels.exponent)
    low, high = root_bounds(*_smallest(residuals))

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        _, least = _smallest(residuals)
        for residual in residuals:
            if residual.square_low <= least and residual.bits < precision // 2:
                residual.refine(precision // 2)
        return _root_ball(*_smallest(residuals)), rounded_noise.ball(scale)

    value = rounded_noise.sample_rounded(
        np.array([0.5 * (low + high)]),
        np.array([high - low + 2.0**-52 * high]),
        (scale, scale),
        grid - labels.exponent,
        randomness,
        exact,
        law,
    )
    return math.ldexp(float(value[0]), labels.exponent)


def _smallest(residuals: Sequence[ExactLeastSquares]) -> tuple[Fraction, Fraction]:
    """Return an enclosure of the smallest residual sum of squares."""
    return min(r.square_low for r in residuals), min(r.square_high for r in residuals)


def root_bounds(low: Fraction, high: Fraction) -> tuple[float, float]:
    """Return √low rounded down and √high rounded up."""
    return math.sqrt(low) * (1 - 2.0**-50), math.sqrt(high) * (1 + 2.0**-50)


def _root_ball(low: Fraction, high: Fraction) -> Any:
    """Return a ball that holds √low and √high."""
    return rounded_noise.ball(low).sqrt().union(rounded_noise.ball(high).sqrt())


class AggregateLabelSampler(Private):
    """t_j | Z_j ~ N(Z_j·β̂, σ² + s²) in label codes, in doubles and to any precision."""

    def __init__(
        self, residual: ExactLeastSquares, labels: LabelGrid, added_variance: float, intercept: bool
    ) -> None:
        self._residual, self.exponent = residual, labels.exponent
        self._centre = labels.centre if intercept else 0
        self._added = Fraction(added_variance) * Fraction(2) ** (-2 * labels.exponent)
        self._slope = residual.coefficients()
        self._slope_error = residual.coefficient_errors()
        low, high = residual.square_low + self._added, residual.square_high + self._added
        self.std = root_bounds(low, high)

    def means(self, features: Reals) -> tuple[Reals, Reals]:
        """Return Z·β̂ and a rigorous bound of its error."""
        return means(features, self._slope, self._slope_error, self._centre)

    def publish(self, features: Reals, grid: int, randomness: Randomness) -> Reals:
        """Return exactly rounded labels of these aggregates, in label codes."""
        mean, error = self.means(features)
        step, exact = grid - self.exponent, self.exact_at(features)
        return rounded_noise.sample_rounded(mean, error, self.std, step, randomness, exact)

    def exact_at(self, features: Reals) -> rounded_noise.Exact:
        """Return the law of each label to any precision, for the rare draw in doubt."""

        def exact(row: int, precision: int) -> tuple[Any, Any]:
            residual = self._residual
            if residual.bits < precision // 2:
                residual.refine(precision // 2)
            mean = residual.linear(features[row])
            if self._centre:
                mean += rounded_noise.ball(features[row, 0]) * self._centre
            low, high = residual.square_low + self._added, residual.square_high + self._added
            return mean, _root_ball(low, high)

        return exact


def means(features: Reals, slope: Reals, slope_error: Reals, centre: int) -> tuple[Reals, Reals]:
    """Return Z·β̂ and a rigorous bound of its error, for one slope or one for each row of Z.

    `centre` is what labels count from, if the first column is the constant, else 0.
    """
    size, terms = np.abs(features), features.shape[1] + 3
    moved = slope.copy()
    if centre:
        moved[..., 0] += centre
    error = np.vecdot(size, slope_error + terms * 2.0**-52 * np.abs(moved))
    if centre:
        error += 2.0**-52 * (np.abs(slope[..., 0]) + abs(centre)) * size[:, 0]
    return np.vecdot(features, moved), error * (1 + 2.0**-40)


# ---- verification


def check_floor(claim: FloorClaim, floor: dict[str, Any]) -> Iterator[str]:
    """Yield where the floor that a certificate shows is not the one its claim needs."""
    measured, shown, added = floor["measured"], floor["lower_bound"], floor["added_variance"]
    present = {claim.measurement is not None, measured is not None, shown is not None}
    if present != {claim.mode.measures}:
        yield f"certificate: a {claim.mode.value} floor and its measurement do not go together"
        return
    expected = floor_outcome(claim, measured)
    due = expected.added_variance
    if claim.measurement is not None and measured is not None and shown is not None:
        noise, most = claim.measurement.noise(claim.width), claim.residual_ms(None)[1][1]
        if math.fmod(measured, math.ldexp(1.0, rounded_noise.grid_for(noise))) != 0:
            yield "certificate: floor.measured is off its public grid: its low bits may leak"
        far = checks.FAR * noise
        if not -far <= measured <= math.sqrt(most * claim.facts.rows) + far:
            yield "certificate: floor.measured is impossible: no labels in their range leave that"
        if not math.isclose(shown, expected.lower_bound or 0.0, rel_tol=1e-6, abs_tol=1e-300):
            yield f"certificate: floor.lower_bound should be {expected.lower_bound:.9g}"
    if claim.mode is FloorMode.MEASURED and due > 0:
        yield "certificate: the floor that was measured is below the one needed"
        due = 0.0
    close = math.isclose(added, due, rel_tol=1e-6, abs_tol=1e-300)
    if not close or added < due * (1 - 1e-9):
        yield f"certificate: floor.added_variance should be {due:.9g}"


def check_floor_release(release: Release, claim: FloorClaim) -> Iterator[str]:
    """Yield where published numbers contradict a claim that rests on a floor.

    Labels must stand on the public grid and vary about their fit as the floor demands.
    """
    certificate = release.certificate
    if claim.inflation < SAMPLER_ROUNDING:
        yield (
            f"certificate: the inflation must be at least {SAMPLER_ROUNDING:.3g}, the sampler's "
            "rounding"
        )
    yield from check_floor(claim, certificate["floor"])
    if not (yield from checks.check_labels(release, claim, claim.grid)):
        return
    reach = max(map(abs, claim.label_range))
    added = max(0.0, certificate["floor"]["added_variance"])
    yield from checks.check_reach(release, claim.facts.rows * reach**2 + added)
    yield from checks.check_scatter(release, claim.floor)
    if certificate["form"] == "rows":
        for problem in check_repeats(
            NORMAL_TAILS, math.sqrt(claim.floor), claim.grid, release.labels
        ):
            yield f"{AGGREGATES} has {problem}"


class FloorMechanism(Mechanism):
    """What mechanisms with secret weights have in common."""

    accountants = ("exact-worst-case", "exact")

    def label_model(self, release: Release) -> SketchedLabels:
        certificate = release.certificate
        share = certificate["bag_size"] / release.features.rows
        return SketchedLabels(share, certificate["floor"]["added_variance"])

    def not_checked(self, release: Release) -> Iterator[str]:
        """Yield where labels without noise would pass the check of their scatter."""
        columns = len(release.features.names)
        if release.bags - columns <= checks.SCARCE:
            yield (
                f"whether labels vary as the floor demands: {release.bags} aggregates of {columns} "
                "columns leave too little to see it"
            )
