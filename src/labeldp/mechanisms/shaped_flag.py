"""shaped-flag: d sums of all rows with public weights, and noise shaped for them (theory §9).

The release is Z = C·XᵀX and t = C·Xᵀy + noise for a public d×d matrix C. Row i enters aggregate j
with the weight c_j·x_i, so that t = Σ_i (C x_i)·y_i + noise. Z holds features only, which are
public. Least squares on (Z, t) gives the fit with all labels, plus C⁻¹·noise. The second moment
Σ(y_i − c)² about the middle c of the label range is published with noise of its own: with t it
tells R², the spread of the residuals and standard errors (theory §15).

Privacy: one label that changes by at most Δ moves t by at most Δ·‖C x_i‖ ≤ Δ·L, and the second
moment by at most Δ²/4. Noise N(0, s²) on each entry of t is a Gaussian mechanism with μ = ΔL/s, and
μ² of both parts add (theory §6.2, §13). Radial noise of scale b, with density ∝ exp(−‖x‖/b), has
pure ε = ΔL/b, and less noise does where δ > 0; both parts are composed by their exact δ(ε)
(theory §16). All k labels of a person move t by at most Δ·Σ‖C x_i‖, which takes the place of ΔL,
and the second moment by kΔ²/4. Nothing is assumed about the labels, nor about how C was found.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import gammainc
from threadpoolctl import threadpool_limits

from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.arrow_util import arrow_numbers, column_numbers
from labeldp.data.source import Source
from labeldp.display import Document, Facts, number
from labeldp.errors import DataError, InputError, PlanError, at_least, positive
from labeldp.exact.cholesky import ROUNDOFF
from labeldp.exact.gram import FeatureGram, GramAccumulator
from labeldp.exact.label_sums import (
    ExactLeastSquares,
    LabelCrossProducts,
    LabelGrid,
    LabelMoments,
    largest_square_move,
)
from labeldp.exact.person_norms import PersonScan
from labeldp.exact.row_norms import RowNorms, RowNormScan, Weights, round_length_up
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.base import (
    CONTRADICTION,
    OTHER_FEATURES,
    Mechanism,
    MechanismPlan,
    NoisySecondMoment,
    SumLabels,
    read_schema,
)
from labeldp.mechanisms.checks import (
    CHANCE,
    NORMAL_TAILS,
    check_labels,
    check_noise_scatter,
    check_repeats,
    other_table,
)
from labeldp.mechanisms.design_summary import DesignSummary
from labeldp.mechanisms.forecast import QUANTILES, Spread, explained_ms, shrunken_ms
from labeldp.mechanisms.noise_claim import NOISE_LAWS, NoiseClaim, SumNoise, choose_noise
from labeldp.mechanisms.noise_shape import NoiseCovariance, optimize_noise_shape, posterior_error
from labeldp.mechanisms.options import (
    AUTO,
    GAUSSIAN,
    RADIAL,
    RESIDUAL_SHARE,
    AccountQuestion,
    PlanRequest,
    ShapedFlagOptions,
)
from labeldp.mechanisms.residual_floor import measure_residual
from labeldp.passes.accumulator import Accumulator
from labeldp.passes.engine import Engine
from labeldp.releases.certificate import FloorOutcome, Person, read_common_fields
from labeldp.releases.pending import (
    AGGREGATES,
    PendingRelease,
    aggregate_batch,
    aggregate_schema,
    file_name,
)
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness

if TYPE_CHECKING:
    from labeldp.releases.files import Release

Reals = NDArray[np.float64]
Request = PlanRequest[ShapedFlagOptions]
WEIGHTS = file_name("weights")

_UP = 1 + 2.0**-50
_SHAPE_FIELDS = (
    "length", "noise_std", "trace", "directions", "gap", "kind", "passes", "noise_law", "ridge",
)  # fmt: skip
"""Fields of the claim in the section `shape` of the certificate."""


@dataclass(frozen=True, kw_only=True)
class ShapedFlagClaim(NoiseClaim):
    """`bags` aggregates with public weights of length at most `length` in every row."""

    mechanism: ClassVar[str] = "shaped-flag"

    length: float
    """L; if all rows of a person are covered together, the bound of Σ‖C x_i‖ over them."""
    noise_std: float
    """s, of each aggregate label, in label units."""
    trace: float
    """tr S, scaled to L = 1, where S is the covariance of the noise in whitened coordinates."""
    directions: float
    """(tr S)²/tr S²: between 1 and d."""
    gap: float
    """Ratio of what the search made least (the trace, or with a ridge another) to its bound."""
    kind: str
    passes: int
    noise_law: str = GAUSSIAN
    second_moment_noise_std: float | None = None
    """s₀, of Σ(y − c)²; None: it is not published."""
    second_moment_centre: float = 0.0
    """c: the middle of the label range, on the grid of labels; 0 without an intercept."""
    residual_noise_std: float | None = None
    """Of releases made before the second moment: the noise on the residual's root."""
    ridge: float = 0.0
    """Ridge of the whitened rows that the shape was searched for; 0: none."""

    def __post_init__(self) -> None:
        # Claims may come from anyone's file; a deviation of 0 would be no noise at all.
        positive(length=self.length, noise_std=self.noise_std)
        at_least(0, ridge=self.ridge)
        for name in ("second_moment_noise_std", "residual_noise_std"):
            if (std := getattr(self, name)) is not None:
                positive(**{name: std})
        if None not in (self.second_moment_noise_std, self.residual_noise_std):
            raise ValueError("a second moment and a residual's root exclude each other")
        if self.second_moment_noise_std is None and self.second_moment_centre:
            raise ValueError("a second moment that is not published has no centre")

    @property
    def noise(self) -> SumNoise:
        return NOISE_LAWS[self.noise_law]

    @property
    def scale(self) -> float:
        """The scale of the noise on the aggregates: s, or b if it is radial."""
        return self.noise_std / self.noise.std(self.bags)

    @property
    def single_noise_std(self) -> float | None:
        """Deviation of the noise on the number beside the aggregates; None: there is none."""
        return self.second_moment_noise_std or self.residual_noise_std

    @property
    def single_reach(self) -> float:
        """Most that one label, or a person's k, can move that number."""
        if self.residual_noise_std is not None:
            return self.width * math.sqrt(self.protected)  # theory §6.2
        return self.protected * largest_square_move(self.label_range, self.second_moment_centre)

    @property
    def single_scale(self) -> float:
        """The scale of the noise on it; 0: there is none."""
        return (self.single_noise_std or 0.0) / self.noise.std(1)

    @property
    def costs(self) -> tuple[float, float]:
        """What the aggregates and that number cost (`SumNoise`), rounded up."""
        single = self.single_reach / self.single_scale if self.single_scale else 0.0
        return self.width * self.length / self.scale * _UP, single * _UP

    @property
    def privacy_profile(self) -> PrivacyProfile:
        return self.noise.profile(*self.costs, self.bags)

    @property
    def sampler_description(self) -> str:
        return self.noise.sampler_description

    @property
    def excess_spread(self) -> Spread:
        """The sum of squares that noise adds to the predictions of all rows."""
        mean = (self.noise_std / self.length) ** 2 * self.trace
        error_quantile, shape = self.noise.error_quantile, (self.directions, self.bags)
        return Spread(mean, *(mean * error_quantile(*shape, q) for q in QUANTILES))

    def label_noise_std(self, outcome: FloorOutcome | None) -> float:  # noqa: ARG002
        return self.noise_std

    @property
    def basis(self) -> str:
        norm = "norm over all rows"
        if self.person is not None:
            norm = "sum of norms over the rows of a person"
        noise = f"{self.noise.basis}, with delta = 0," if self.delta == 0 else self.noise.basis
        return (
            f"{noise} with public weights; their largest {norm} is certified, "
            "and nothing is assumed of the labels"
        )

    def own_fields(self) -> Document:
        shape = {name: getattr(self, name) for name in _SHAPE_FIELDS}
        if not self.ridge:
            del shape["ridge"]
        if self.second_moment_noise_std is not None:
            shape["second_moment_noise_std"] = self.second_moment_noise_std
            shape["second_moment_centre"] = self.second_moment_centre
        else:
            shape["residual_noise_std"] = self.residual_noise_std
        return {"shape": shape}


@dataclass(frozen=True)
class PricedShape:
    """A noise shape at a budget: what it would promise, and what its noise does to predictions."""

    shape: NoiseCovariance
    claim: ShapedFlagClaim
    design: DesignSummary = field(repr=False)
    root: Reals = field(repr=False)
    """K of the noise covariance S = K·Kᵀ, in any unit."""
    explained_ms: float
    """Mean square that features are assumed to explain."""

    @property
    def added_mse(self) -> float:
        """What noise adds to the mean squared error of least-squares predictions."""
        return self.claim.excess / self.claim.rows

    @cached_property
    def shrunken_added_mse(self) -> float:
        """Mean square that noise adds to shrunken predictions, if all directions explain alike."""
        # In whitened coordinates the first direction is the mean's if there is an intercept.
        root, claim, first = self.root, self.claim, int(self.claim.intercept)
        scaled = root * np.sqrt(claim.excess / np.square(root).sum())
        with threadpool_limits(1, "blas"):  # the last digits of LAPACK follow its threads
            slopes = np.square(np.linalg.svd(scaled[first:], compute_uv=False))
        mean, explained = float(np.square(scaled[:first]).sum()), self.explained_ms
        return shrunken_ms(
            slopes.tolist(), mean, rows=claim.rows, width=claim.width, explained=explained
        )

    @cached_property
    def prior_added_mse(self) -> float:
        """The same if labels follow the prior of the default fit, in which columns differ."""
        claim, design = self.claim, self.design
        explained, mean = claim.rows * self.explained_ms, claim.rows * claim.width**2 / 12
        noise_root = claim.noise_std * self.root
        with threadpool_limits(1, "blas"):
            error = posterior_error(
                design.factor, design.features, noise_root, explained=explained, mean=mean
            )
        return error / claim.rows


def _twelve_digits(value: float) -> float:
    """Round to twelve digits: more would follow the machine's rounding."""
    return float(f"{value:.12g}")


RIDGES = (0.1, 1.0)
"""Tried where shrinkage drops much of the noise."""
_RIDGE_COLUMNS = 1200
"""With more columns every ridge would take another minute."""
_SHRINKAGE_DROPS = 0.75
"""A ridge is tried where shrinkage leaves at most this share of the noise."""
_RIDGE_PAYS = 0.95
"""A ridge is used where it leaves at most this share of the expected error."""
_BUDGET_TOLERANCE = 1e-6
"""Share of the budget that a plan may leave unused."""
_MOST_DEVIATIONS = 100.0
"""Deviations that no noise on an aggregate exceeds."""
_TRACE_TOLERANCE = 0.01
"""Relative tolerance of the stated error: published numbers give it up to their rounding."""


class ShapedFlag(Mechanism):
    """d sums of all rows with chosen public weights, and noise.

    `plan`, from features only
        1. summarize the design: exact XᵀX and its verified Cholesky factor     -> summarize_design
        2. search the C whose noise adds least to the predictions of the fit    -> _find_shape
        3. bound L = max ‖C x_i‖ over all rows, or over persons max Σ‖C x_i‖    -> _sensitivity
        4. choose the noise law, split the budget between t and the second moment, and compute
           the deviations of the noise that this asks for                       -> _price
        5. use a ridge in the search where shrunken predictions gain by it      -> _choose_shape
        6. forecast the error of the fit                                        -> plan
    `run`, one pass over features and labels
        7. sum XᵀX and Xᵀy exactly, and measure L again on the very rows that are summed
                                                                          -> run_pass_with_lengths
        8. draw the second moment Σ(y − c)² with noise                          -> second_moment
        9. draw t = C·Xᵀy + noise, exactly rounded to a public grid             -> aggregate_labels
       10. compute Z = C·XᵀX, without noise, and publish Z, t and C             -> run
    Labels enter in step 7 and leave in steps 8 and 9 alone; all noise is drawn there, by
    `sampling/rounded_noise`.
    """

    name = "shaped-flag"
    Options = ShapedFlagOptions
    covers_persons = True
    allows_pure = True
    closed_form = True
    sections: ClassVar = read_schema("shape")["properties"]
    table_names = ("weights",)
    account_fields = ("features", "max_leverage", "residual_share", "noise")

    # ---- planning

    def plan(
        self, request: Request, design: DesignSummary, source: Source, engine: Engine
    ) -> MechanismPlan:
        """Choose weights and noise from the features; no label is read."""
        if not design.factor.rank:
            raise DataError("no feature column is left, so there is nothing to weigh rows by")
        if source.classes is not None and design.features.constant is not None:
            # Labels of two classes are all ½ from the middle: their second moment is n/4.
            request = replace(request, options=replace(request.options, residual_share=0.0))
        best, plain = self._choose_shape(request, design, source, engine)
        claim, options = best.claim, request.options
        forecast = claim.forecast(options.residual(claim.width), options.residual_source)
        with engine.progress("forecast", None):
            # A ridge is chosen for labels as the prior of the fit expects them.
            default_fit = best.prior_added_mse if best.shape.ridge else best.shrunken_added_mse
        forecast = replace(forecast, added_mse_default_fit=default_fit)
        if best is not plain:
            # Plans are compared by the error of least squares. A ridge trades it for that of
            # shrunken fits, so such a plan counts as the plain one less the share it saves there.
            saved = best.prior_added_mse / plain.prior_added_mse
            forecast = replace(forecast, selection_score=plain.added_mse * saved)
        notes = [self._note(best, plain)] if best.shape.ridge else []
        return self.make_plan(design, claim, forecast, notes, best.shape.weights)

    def _choose_shape(
        self, request: Request, design: DesignSummary, source: Source, engine: Engine
    ) -> tuple[PricedShape, PricedShape]:
        """Return the shape to use and the one without a ridge (step 5)."""

        def priced(ridge: float) -> PricedShape:
            shape = self._find_shape(design, source, engine, ridge)
            length, person = self._sensitivity(shape, design.features, source, engine)
            return self._price(request, design, shape, length, person)

        ridge_option = request.options.shape_ridge
        many_columns = design.factor.rank > _RIDGE_COLUMNS
        if ridge_option and many_columns:
            raise InputError(f"`shape_ridge` takes {_RIDGE_COLUMNS:,} design columns at most")
        plain = priced(0.0)
        if ridge_option is not None:
            return (priced(ridge_option) if ridge_option else plain), plain
        if many_columns or plain.shrunken_added_mse > _SHRINKAGE_DROPS * plain.added_mse:
            return plain, plain
        best = min(map(priced, RIDGES), key=lambda each: each.prior_added_mse)
        return (
            best if best.prior_added_mse <= _RIDGE_PAYS * plain.prior_added_mse else plain
        ), plain

    def _find_shape(
        self, design: DesignSummary, source: Source, engine: Engine, ridge: float
    ) -> NoiseCovariance:
        """Search the C that adds least noise to a fit, in a few passes over features (step 2).

        The result depends on features alone and is kept in the design summary, because plans at
        other budgets use the same. No guarantee rests on the search: L is measured on the C that
        is found.
        """

        def scan_rows(weights: Weights, keep: int, sample: int, floor: float) -> RowNorms:
            scan = RowNormScan(design.features, weights, keep=keep, sample=sample, floor=floor)
            norms: RowNorms = engine.run_pass("rows against the shape", source, scan)
            return norms

        if ridge not in design.noise_shapes:
            shape = optimize_noise_shape(design.factor, design.features, scan_rows, ridge)
            design.noise_shapes[ridge] = shape
        return design.noise_shapes[ridge]

    def _sensitivity(
        self, shape: NoiseCovariance, features: FeatureMap, source: Source, engine: Engine
    ) -> tuple[float, Person | None]:
        """Return L for one row, or for all rows of a person (step 3)."""
        if source.person is None:
            return shape.length, None
        largest = engine.run_pass("persons", source, PersonScan(features, shape.weights))
        return round_length_up(largest.length), Person(source.person, largest.rows)

    def _price(
        self,
        request: Request,
        design: DesignSummary,
        shape: NoiseCovariance,
        length: float,
        person: Person | None,
    ) -> PricedShape:
        """Compute the noise that the budget asks of a shape (step 4)."""
        options, columns, width = request.options, design.factor.rank, design.facts.width
        budget, centre = (request.epsilon, request.delta), design.labels.middle
        noise, aggregate_cost, single_cost = choose_noise(
            options.noise, *budget, options.residual_share, columns
        )
        if noise.name == RADIAL and aggregate_cost + single_cost <= request.epsilon:
            # It spends no δ then; the claim states the strongest guarantee that is true.
            request = replace(request, delta=0.0)
        with threadpool_limits(1, "blas"):
            root = shape.weights.noise_root(design.factor)
            trace, squares = np.square(root).sum(), np.square(root @ root.T).sum()
        longer = (length / shape.length) ** 2
        square_move = largest_square_move(design.labels.range, centre)
        single_reach = square_move * (1 if person is None else person.rows)
        claim = ShapedFlagClaim(
            **design.claim_fields(request),
            bags=columns,
            length=length,
            noise_std=noise.needed_std(width * length, aggregate_cost, columns),
            trace=_twelve_digits(shape.trace * longer),
            directions=_twelve_digits(float(trace**2 / squares)),
            gap=_twelve_digits(shape.objective * longer / shape.bound),
            kind=shape.kind,
            passes=shape.passes,
            noise_law=noise.name,
            second_moment_noise_std=noise.needed_single_std(single_reach, single_cost),
            second_moment_centre=centre if single_cost else 0.0,
            ridge=shape.ridge,
            person=person,
        )
        explained = explained_ms(width, options.residual_guess or 0.0)
        return PricedShape(shape, claim, design, root, explained)

    def _note(self, best: PricedShape, plain: PricedShape) -> str:
        less = 1 - best.prior_added_mse / plain.prior_added_mse
        return (
            f"few rows for the columns: the shape has a ridge of {best.shape.ridge:g}, with which "
            f"shrunken predictions are expected to have {less:.0%} less squared error by noise, "
            f"and those of least squares {best.added_mse / plain.added_mse:.2g} times as much; for "
            "coefficients and their intervals take `shape_ridge=0`"
        )

    # ---- run

    def run(
        self, plan: MechanismPlan, source: Source, engine: Engine, randomness: Randomness
    ) -> PendingRelease:
        """Read the labels in one pass; then draw the second moment and the aggregates."""
        claim, features, labels, weights = plan.claim, plan.features, plan.labels, plan.weights
        assert isinstance(claim, ShapedFlagClaim)
        if weights is None or weights.kept != features.kept_columns:
            raise PlanError(CONTRADICTION)
        plan.check_source(
            source,
            weights.problem() is None,
            claim.bags == claim.rank == weights.rank,
            claim.second_moment_noise_std is None or claim.second_moment_centre == labels.middle,
        )
        randomness.spend()
        # Step 7: labels enter. Only sums of them are kept.
        sums = GramAccumulator(features), LabelCrossProducts(features, labels)
        (gram, moments), problem = run_pass_with_lengths(
            claim, features, weights, source, engine, *sums
        )
        plan.check_feature_sums(gram.digest())
        if problem is not None:
            raise PlanError(OTHER_FEATURES)
        # Steps 8 and 9: labels leave, with noise.
        if claim.residual_noise_std is None:
            number = {"second_moment": second_moment(claim, moments, labels, randomness)}
        else:  # the plan of an earlier version
            residual = ExactLeastSquares(plan.factor_of(gram, saturated=True), moments)
            step, law = rounded_noise.grid_for(claim.residual_noise_std), claim.noise.single_law
            scale = claim.single_scale
            root = measure_residual([residual], labels, scale, step, randomness, law)
            number = {"residual_root": root}
        grid = rounded_noise.grid_for(claim.noise_std)
        published_labels = aggregate_labels(weights, gram, moments, labels, claim, grid, randomness)
        # Step 10: Z in the feature map's scales. It holds features only, so no noise is needed.
        schema = aggregate_schema(features, source.label or "label")
        exact = gram.exact(weights.kept).astype(np.float64)
        batch = aggregate_batch(
            schema, weights.matrix @ exact * features.kept_scales, published_labels
        )
        columns = [arrow_numbers(column) for column in weights.matrix.T]
        return plan.pending_release(
            source,
            randomness,
            grid=grid,
            schema=schema,
            batches=[batch],
            files={"weights": pa.Table.from_arrays(columns, schema=weight_schema(features))},
            more_fields=number,
        )

    # ---- reading a release

    def claim_from_json(self, document: Document) -> ShapedFlagClaim:
        return ShapedFlagClaim(**read_common_fields(document), **document["shape"])

    def table_schemas(self, release: Release) -> dict[str, pa.Schema]:
        return super().table_schemas(release) | {"weights": weight_schema(release.features)}

    def label_model(self, release: Release) -> SumLabels:
        """Return sums of all rows with known weights, and what was published beside them."""
        shape, root = release.certificate["shape"], release.certificate.get("residual_root")
        weights, square = published_weights(release), None
        if (value := release.certificate.get("second_moment")) is not None:
            std, centre = shape["second_moment_noise_std"], shape["second_moment_centre"]
            square = NoisySecondMoment(value, std, centre)
        elif "classes" in release.certificate["labels"] and release.features.constant is not None:
            square = NoisySecondMoment(release.features.rows / 4, 0.0, 0.5)
        return SumLabels(
            np.full(release.table.num_rows, float(shape["noise_std"])),
            weights.matrix / release.features.kept_scales,
            radial=shape.get("noise_law") == RADIAL,
            residual=None if root is None else (root, shape["residual_noise_std"]),
            second_moment=square,
        )

    def describe(self, document: Document) -> Facts:
        claim = self.claim_from_json(document)
        distance = (
            f"{claim.gap - 1:.1%} from the best possible at most"
            if claim.person is None
            else f"for persons {number(claim.gap, 3)} times the least for single rows"
        )
        ridge = f" with a ridge of {claim.ridge:g}" if claim.ridge else ""
        std = f"deviation {number(claim.noise_std)} on each aggregate label"
        shape = f"{claim.kind}{ridge}, {distance}, after {claim.passes} passes"
        noise = f"{claim.noise_law}, {std}"
        return ("noise", noise), ("shape of the noise", shape)

    # ---- verification

    def check(self, release: Release) -> Iterator[str]:
        claim, features = self.claim_from_json(release.certificate), release.features
        aggregates, single = claim.costs
        due = claim.noise.aggregate_cost(claim.epsilon, claim.delta, single, claim.bags)
        if aggregates < due * (1 - _BUDGET_TOLERANCE):
            yield "certificate: the noise is not that of the budget"
        yield from self._check_single_number(claim, release.certificate)
        yield from self._check_centre(claim, release)
        if release.files["weights"].num_rows != len(features.names):
            yield f"{WEIGHTS} is not square"
            return
        weights = published_weights(release)
        unsound = list(check_labels(release, claim, rounded_noise.grid_for(claim.noise_std)))
        unsound += filter(None, [weights.problem()])
        yield from unsound
        if unsound:
            return
        # |t| ≤ n·L·max|y|, plus more noise than there can be.
        largest = max(map(abs, claim.label_range))
        most = claim.rows * claim.length * largest + _MOST_DEVIATIONS * claim.noise_std
        if np.abs(release.labels).max(initial=0.0) > most:
            yield f"{AGGREGATES} has labels larger than those in the range can make them"
        yield from self._check_noise(release, claim)
        yield from self._check_stated_error(release, weights, claim)

    def _check_single_number(self, claim: ShapedFlagClaim, certificate: Document) -> Iterator[str]:
        """Check that the number beside the aggregates stands on its grid and is possible."""
        furthest = max(abs(end - claim.second_moment_centre) for end in claim.label_range)
        longest = math.sqrt(claim.rows) * claim.largest_label
        published = {
            "second_moment": (claim.second_moment_noise_std, claim.rows * furthest**2),
            "residual_root": (claim.residual_noise_std, longest),
        }
        for name, (std, most) in published.items():
            value = certificate.get(name)
            if (std is None) is not (value is None):
                yield f"certificate: {name} and the noise on it do not go together"
            if std is None or value is None:
                continue
            if math.fmod(value, math.ldexp(1.0, rounded_noise.grid_for(std))) != 0:
                yield f"certificate: {name} is off its public grid: its low bits may leak"
            far = claim.noise.single_reach * std
            if not -far <= value <= most + far:
                yield f"certificate: {name} is impossible: no labels in their range leave that"

    def _check_centre(self, claim: ShapedFlagClaim, release: Release) -> Iterator[str]:
        """Check that the second moment is about what labels count from: its reach follows from it.

        The range was widened to the grid of labels, so its middle may be another by one step.
        """
        if claim.second_moment_noise_std is None:
            return
        step = math.ldexp(1.0, release.certificate["numerics"]["label_exponent"])
        middle, reach = 0.0, 0.0
        if release.features.intercept:
            low, high = claim.label_range
            middle, reach = 0.5 * low + 0.5 * high, step
        centre = claim.second_moment_centre
        if not abs(centre - middle) <= reach or math.fmod(centre, step) != 0:
            yield "certificate: shape.second_moment_centre is not what labels count from"

    def _check_stated_error(
        self, release: Release, weights: Weights, claim: ShapedFlagClaim
    ) -> Iterator[str]:
        """Check that Z = C·G for a symmetric G, and that the stated error follows from it.

        S = L²(C·G·Cᵀ)⁻¹. The trace of C·G·Cᵀ is Σ‖C x_i‖², so L² is at least its n-th part.
        """
        design = release.design / release.features.kept_scales
        product = design @ weights.matrix.T
        # Rounding is relative to |C|·|G|·|C|ᵀ: C·G cancels where columns are alike. `check` has
        # seen that C is invertible; made-up numbers may still overflow.
        with np.errstate(over="ignore", invalid="ignore"):
            sums = np.abs(np.linalg.solve(weights.matrix, design))
            size = np.abs(weights.matrix) @ np.maximum(sums, sums.T) @ np.abs(weights.matrix.T)
        rounding = 4 * (weights.rank + 8) * ROUNDOFF * size
        if not (np.abs(product - product.T) <= rounding).all():
            yield f"{AGGREGATES} and {WEIGHTS} do not belong together"
            return
        if np.trace(product) - np.trace(rounding) > claim.rows * claim.length**2:
            yield "certificate: shape.length is less than what rows have on average"
        values = np.linalg.eigvalsh((product + product.T) / 2)
        error = float(np.linalg.norm(rounding))
        if values[0] <= 10 * error:  # the numbers are too rough to tell
            return
        inverse = claim.length**2 / values
        slack = _TRACE_TOLERANCE + 10 * error / values[0]
        if not math.isclose(inverse.sum(), claim.trace, rel_tol=slack):
            yield f"certificate: shape.trace should be {inverse.sum():.6g}"
        directions = inverse.sum() ** 2 / np.square(inverse).sum()
        if not math.isclose(directions, claim.directions, rel_tol=2 * slack):
            yield f"certificate: shape.directions should be {directions:.6g}"

    def _check_noise(self, release: Release, claim: ShapedFlagClaim) -> Iterator[str]:
        """Check that labels are as long as the noise alone: means only add to that (Anderson).

        Equal labels y = c have the means c·z, where z is the design column of the constant.
        """
        labels, grid = release.labels, rounded_noise.grid_for(claim.noise_std)
        if claim.noise_law == GAUSSIAN:
            constant = release.design[:, : int(claim.intercept)]
            noise = np.full(len(labels), claim.noise_std)
            problems = {
                *check_noise_scatter(labels, noise, grid, constant),
                *check_repeats(NORMAL_TAILS, claim.noise_std, grid, labels),
            }
            yield from (f"{AGGREGATES} has {problem}" for problem in sorted(problems))
        else:
            rounding = math.sqrt(len(labels)) * math.ldexp(0.5, grid)
            length = float(np.linalg.norm(labels)) + rounding
            if gammainc(len(labels), length / claim.scale) < CHANCE:
                yield f"{AGGREGATES} has labels that are smaller than the noise demands"

    def not_checked(self, release: Release) -> Iterator[str]:  # noqa: ARG002
        yield (
            "whether noise was added to the labels: as many aggregates as columns fit any labels, "
            "so public files cannot show it"
        )

    def check_features(self, release: Release, source: Source, engine: Engine) -> Iterator[str]:
        """Compare rows, sums and L with the table's, in one pass."""
        features = release.features
        claim, weights = self.claim_from_json(release.certificate), published_weights(release)
        (gram,), too_long = run_pass_with_lengths(
            claim, features, weights, source, engine, GramAccumulator(features)
        )
        if (problem := other_table(release, gram)) is not None:
            yield problem
            return
        if too_long is not None:
            yield too_long
        # Z = C·XᵀX for the table's XᵀX, up to rounding.
        exact = gram.exact(weights.kept).astype(np.float64)
        rounding = 4 * (weights.rank + 8) * ROUNDOFF * (np.abs(weights.matrix) @ np.abs(exact))
        design = release.design / features.kept_scales
        if not (np.abs(design - weights.matrix @ exact) <= rounding).all():
            yield f"{AGGREGATES} has features that are not those of the table, weighed as it says"

    # ---- labeldp account

    def account(self, question: AccountQuestion) -> Document:
        """Return the noise, and bounds of the error that it adds to a prediction."""
        share = RESIDUAL_SHARE if question.residual_share is None else question.residual_share
        columns, leverage = question.needed("features"), question.max_leverage
        law, aggregate_cost, single_cost = choose_noise(
            question.noise or AUTO, *question.budget, share, columns
        )
        std = law.needed_std(question.width, aggregate_cost, columns)
        labels = LabelGrid.for_range(question.label_range, intercept=question.centred)
        square_move = largest_square_move(labels.range, labels.middle)
        isotropic = (
            None if leverage is None else std * math.sqrt(columns * leverage / question.rows)
        )
        return {
            "residual_share": share,
            "noise_law": law.name,
            "noise_std": std,
            "second_moment_noise_std": law.needed_single_std(square_move, single_cost),
            # d²/n ≤ tr S ≤ d·h_max; the latter has the same noise in every direction
            "least_error": std * columns / question.rows,
            "isotropic_error": isotropic,
        }


# ---- the steps of a run


def run_pass_with_lengths(
    claim: ShapedFlagClaim,
    features: FeatureMap,
    weights: Weights,
    source: Source,
    engine: Engine,
    *sums: Accumulator[Any],
) -> tuple[list[Any], str | None]:
    """Return sums over all rows, and where the rows exceed what `claim.length` says (step 7).

    ‖C x_i‖ is measured in the very pass that sums the rows: the guarantee rests on no earlier
    pass, which may have seen another table.
    """
    run_pass: Any = engine.run_pass
    says = "the certificate says {:.6g} at most"
    if claim.person is None:
        *results, norms = run_pass("sums and norms", source, *sums, RowNormScan(features, weights))
        if norms.is_within(claim.length):
            return results, None
        norm = math.sqrt(norms.maximum)
        return results, f"a row's weights have the norm {norm:.6g}, {says.format(claim.length)}"
    *results, largest = run_pass("sums and norms", source, *sums, PersonScan(features, weights))
    problem = None
    if largest.rows > claim.person.rows:
        problem = f"a person has {largest.rows} rows, {says.format(claim.person.rows)}"
    elif largest.length > claim.length:
        total = f"{largest.length:.6g}"
        problem = f"a person's weights add up to {total}, {says.format(claim.length)}"
    return results, problem


def second_moment(
    claim: ShapedFlagClaim, moments: LabelMoments, labels: LabelGrid, randomness: Randomness
) -> float | None:
    """Return Σ(y − c)² + noise, rounded to its public grid (step 8; theory §15).

    Codes of labels count from c, so that the sum is an integer in units of the grid's square.
    """
    std = claim.second_moment_noise_std
    if std is None:
        return None
    square, unit = moments.square, 2 * labels.exponent
    scale = math.ldexp(claim.single_scale, -unit)

    value = rounded_noise.sample_rounded(
        np.array([float(square)]),
        np.array([2.0**-52 * square]),
        (scale, scale),
        rounded_noise.grid_for(std) - unit,
        randomness,
        lambda *_: (rounded_noise.ball(square), rounded_noise.ball(scale)),
        claim.noise.single_law,
    )
    return math.ldexp(float(value[0]), unit)


def aggregate_labels(
    weights: Weights,
    gram: FeatureGram,
    moments: LabelMoments,
    labels: LabelGrid,
    claim: ShapedFlagClaim,
    grid: int,
    randomness: Randomness,
) -> Reals:
    """Return t = C·Xᵀy + noise, rounded to the public grid (step 9).

    C has 40-bit entries and Xᵀy is integers, so that every mean is a rational number. Doubles
    enclose it; the exact fraction decides the few draws whose rounding is in doubt. Rounding the
    ideal real number is post-processing, so the guarantee holds without numerical slack.
    """
    kept = list(weights.kept)
    sums = moments.cross[kept]
    if labels.centre:  # codes count from the centre, and the first column is the constant
        sums = sums + labels.centre * gram.exact(range(gram.width))[0][kept]
    scale = math.ldexp(claim.scale, -labels.exponent)
    rounded = sums.astype(np.float64)
    # Inner products of `rank` terms lose at most this much, whatever the order of summation.
    error = (weights.rank + 4) * 2.0**-52 * (np.abs(weights.matrix) @ np.abs(rounded))

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        pairs = zip(weights.matrix[row], sums, strict=True)
        total = sum((Fraction(float(w)) * int(entry) for w, entry in pairs), Fraction(0))
        return rounded_noise.ball(total), rounded_noise.ball(scale)

    mean, step = weights.matrix @ rounded, grid - labels.exponent
    if claim.noise_law == RADIAL:
        cells = rounded_noise.sample_rounded_radial(mean, error, scale, step, randomness, exact)
    else:
        scales = scale, scale
        cells = rounded_noise.sample_rounded(mean, error, scales, step, randomness, exact)
    return np.ldexp(cells, labels.exponent)


# ---- published numbers


def weight_schema(features: FeatureMap) -> pa.Schema:
    """Return the columns of weights.parquet: C, one row for each aggregate."""
    return pa.schema([pa.field(name, pa.float64(), nullable=False) for name in features.names])


def published_weights(release: Release) -> Weights:
    """Return C; `check` sees whether it has one row for each aggregate."""
    columns = [column_numbers(column) for column in release.files["weights"].columns]
    return Weights(release.features.kept_columns, np.column_stack(columns))
