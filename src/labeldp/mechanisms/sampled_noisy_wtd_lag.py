"""sampled-noisy-wtd-LAg: noisy weighted sums of the labels of m random bags (Algorithm 3).

Bags are m disjoint sets of k rows, drawn from a public seed. The seed also gives every row in a bag
a public normal weight, and says by coins which rows are noisy. Bag j's label is
t_j = Σ w·y + N(0, s²·Σ w² over its noisy rows). Features are not aggregated.

Privacy: bags, weights and noisy rows are public and do not depend on labels. A row is in one bag at
most. Given the weights, one label moves t_j by at most Δ|w|, and the noise has a public deviation,
so each bag is a Gaussian mechanism with μ = Δ·max|w|/(s·√Σw²) ("exact", realised). Drawing weights
again costs nothing, because labels play no part in it (theory §4). "exact-worst-case" averages
over weights and noisy rows before they are drawn (a priori). The paper's own guarantee, Theorem 3,
asks for bags of 75 billion rows where that one asks for 2,551: no release rests on it
(`labeldp_paper.theory.privacy`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, Context
from fractions import Fraction
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.accounting.calibrate import calibrate
from labeldp.accounting.gaussian import GaussianProfile, largest_mu
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.weighted_bags import RandomWeightsProfile, realised_mu
from labeldp.arrow_util import column_numbers
from labeldp.data.source import Source
from labeldp.display import Document, Facts, describe_draw, number
from labeldp.errors import DataError, InputError, PlanError
from labeldp.exact.label_sums import LabelGrid
from labeldp.exact.stacked import stacked_design
from labeldp.mechanisms import bags as bagging
from labeldp.mechanisms.bags import BAGS, BagRows, Draw
from labeldp.mechanisms.base import BagLabels, Mechanism, MechanismPlan, read_schema
from labeldp.mechanisms.checks import check_bag_labels, check_labels
from labeldp.mechanisms.design_summary import DesignSummary
from labeldp.mechanisms.forecast import bag_sizes, fit_excess, forecast, mean_excess, sketched_error
from labeldp.mechanisms.options import AccountQuestion, PlanRequest, SampledNoisyWtdLagOptions
from labeldp.passes.engine import Engine
from labeldp.releases.certificate import AddedError, Claim, FloorOutcome, read_common_fields
from labeldp.releases.pending import AGGREGATES, PendingRelease, label_column
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness, normals, public_stream, words

if TYPE_CHECKING:
    from labeldp.releases.files import Release

Reals = NDArray[np.float64]
Flags = NDArray[np.bool_]
Request = PlanRequest[SampledNoisyWtdLagOptions]

MOST_TRIED_BAG_SIZE = 2**14
"""Largest bag of noisy labels that a plan chooses by itself: small bags do best."""

NOISE = "noise_std"
"""The column of the deviations of labels' noise."""
WEIGHTED = pa.schema(
    [*bagging.MEMBERS, pa.field("weight", pa.float64()), pa.field("noisy", pa.bool_())]
)
"""Which row is in which bag, with which weight, and whether its label has noise."""

# ---- weights and noisy rows: public (step 2)

_MOST_ROUNDS = 1000


@dataclass(frozen=True, eq=False)
class BagWeights:
    """Weights and noisy rows: one line per bag, one column per row in it. No label is involved."""

    values: Reals
    noisy: Flags

    def noise(self, noise_std: float) -> Reals:
        """Return the deviation of each aggregate label, s·√(Σ w² over noisy rows)."""
        return np.asarray(noise_std * np.sqrt(np.square(self.values).sum(axis=1, where=self.noisy)))

    @classmethod
    def from_table(cls, table: pa.Table, draw: Draw) -> BagWeights:
        """Return the weights of bags.parquet, if the bags have their size."""
        shape = (draw.bags, draw.bag_size)
        noisy = table.column("noisy").to_numpy(zero_copy_only=False).astype(bool)
        return cls(table.column("weight").to_numpy().reshape(shape), noisy.reshape(shape))


def label_grid(noise: Reals) -> int:
    """Return the public grid of aggregate labels: that of the least noisy one."""
    return rounded_noise.grid_for(float(noise.min()))


def noisy_by_coins(draw: Draw, fraction: float) -> Flags:
    """Return which rows of bags are noisy, each by its own coin."""
    drawn = words(draw.stream("noisy rows"), draw.members.size)
    if fraction >= 1.0:
        return np.full(draw.members.shape, True)
    chosen = drawn < np.uint64(math.floor(fraction * 2.0**64))
    return np.asarray(chosen).reshape(draw.members.shape)


def noisy_by_column(source: Source, column: str) -> Flags:
    """Return which rows a public column marks as noisy: early plans could name one."""
    if column == source.label or column not in source.reader.schema.names:
        raise DataError(f"the table has no public column {column!r}")
    texts: list[Any] = []
    for batch in source.feature_batches([column]):
        texts += batch.column(0).to_pylist()
    return np.array([str(text).lower() in ("true", "1") for text in texts])


def draw_weights(
    draw: Draw, noisy: Flags, width: float, noise_std: float, target: float | None
) -> BagWeights:
    """Draw weights from the seed; with a target, bags whose μ is above it are drawn again."""
    if not noisy.any(axis=1).all():
        raise PlanError(
            "a bag holds no noisy row, so its label has no noise at all; plan again, or make bags "
            "larger or more rows noisy"
        )
    stream, size = draw.stream("weights"), draw.bag_size
    values = normals(stream, noisy.size).reshape(noisy.shape)
    if target is None:
        return BagWeights(values, noisy)
    over = np.arange(len(values))
    for _ in range(_MOST_ROUNDS):
        mu = realised_mu(values[over], noisy[over], width, noise_std)
        over = over[~(mu <= target)]  # a μ that is no number is above the target as well
        if not len(over):
            return BagWeights(values, noisy)
        values[over] = normals(stream, len(over) * size).reshape(len(over), size)
    raise PlanError(
        f"{len(over)} bags of {size} rows stay above μ = {target:.3g} however often "
        "their weights are drawn; make bags larger, more rows noisy, or the noise stronger"
    )


# ---- claim

_BASIS = {
    "exact": "exact law of the Gaussian mechanism with the weights that were drawn (realised); "
    "bags whose mu was above the plan's were drawn again, without looking at labels",
    "exact-worst-case": "exact law of the Gaussian mechanism, averaged over weights and noisy rows "
    "before they are drawn (a priori)",
}


@dataclass(frozen=True, kw_only=True)
class SampledNoisyWtdLagClaim(Claim):
    """Bags of `draw`, noise N(0, noise_std²) on some rows' labels, in label units."""

    mechanism: ClassVar[str] = "sampled-noisy-wtd-lag"

    draw: Draw
    noise_std: float
    noisy_fraction: float | None
    """ρ: every row is noisy by its own coin. None in old claims, where a column says which are."""
    noisy_column: str | None
    mu: float | None
    """No bag that was drawn has more (over the draw: no draw has); None for a priori claims."""

    def __post_init__(self) -> None:
        realised, fraction = self.accountant == "exact", self.noisy_fraction
        if not realised and not self.draw.random:
            raise InputError(
                "an a priori claim averages over weights drawn at random; leave `bag_seed` out, or "
                "use the accountant exact"
            )
        if fraction is not None and not 0.0 < fraction <= 1.0:
            raise InputError(f"`noisy_fraction` must be above 0 and at most 1, not {fraction:g}")
        # A realised claim has a μ; an a priori one has none, and averages over coins.
        if (
            (self.mu is not None) != realised
            or (fraction is None) == (self.noisy_column is None)
            or (fraction is None and not realised)
        ):
            raise InputError("the accountant, mu and noisy rows do not go together; plan again")

    @property
    def privacy_profile(self) -> PrivacyProfile:
        """Realised: the shifts of a group add up to at most size·μ, in one bag or in several."""
        if self.mu is not None:
            return self.draw.over(GaussianProfile(self.mu))
        assert self.noisy_fraction is not None
        size, fraction = self.draw.bag_size, self.noisy_fraction
        profile = RandomWeightsProfile(size, self.label_range, fraction, self.noise_std)
        return self.draw.over(profile)

    def weights(self, noisy: Flags | None = None) -> BagWeights:
        """Draw weights from the seed, and noisy rows if they are not given (step 2)."""
        if noisy is None:
            if self.noisy_fraction is None:
                raise PlanError("no column can say which rows are noisy any more; plan again")
            noisy = noisy_by_coins(self.draw, self.noisy_fraction)
        return draw_weights(self.draw, noisy, self.width, self.noise_std, self.mu)

    def utility(self) -> Document:
        return {
            "relative_to": "residual sum of squares per row of the fit with all labels, plus the "
            "noise variance times the fraction of noisy rows; approximate, since bags differ",
            **fit_excess(self.rank, self.bags).to_json(),
        }

    def added_error(self, outcome: FloorOutcome | None) -> AddedError:  # noqa: ARG002
        """Return bounds for bags of k rows; unknown if a column says which rows are noisy."""
        if self.noisy_fraction is None:
            return AddedError(added_basis="not known: which rows are noisy stands in a column")
        return sketched_error(
            self.rank,
            self.bags,
            (0.0, self.largest_label**2),
            width=self.width,
            noise_ms=self.noisy_fraction * self.noise_std**2,
            basis="bounds for any residual that the label range allows, and the noise on labels; "
            "approximate, since bags differ",
        )

    @property
    def basis(self) -> str:
        return _BASIS[self.accountant]

    def own_fields(self) -> Document:
        return {
            "bag_size": self.draw.bag_size,
            "draw": self.draw.to_json(),
            "noise": {
                "std": self.noise_std,
                "fraction": self.noisy_fraction,
                "column": self.noisy_column,
                "mu": self.mu,
            },
        }


# ---- how large bags, how much noise (step 1)
#
# m = n/k bags have an excess of (γ + ρs²)·d/(m−d−1), and the s that the budget needs falls like
# 1/√(ρk) times the largest of k weights: small bags do best. The choice affects utility only; the
# claim that is made of it is certified.

_TRIES = 1024
_ACCEPTED = 0.5
"""The share of bags whose first weights should pass; the others are drawn again."""
_MOST_EMPTY = 0.01
"""The most bags without any noisy row, which no weights can help, that a choice may expect."""


def least_noise(claim: SampledNoisyWtdLagClaim) -> float:
    """Return the least noise that makes bags of this size private; inf if none does."""
    if claim.mu is not None:
        fraction = claim.noisy_fraction or 1.0
        return realised_std(claim.draw.bag_size, fraction, claim.width, claim.mu)
    try:
        std = calibrate(claim.privacy_profile, "noise_std", claim.epsilon, claim.delta)
        return round_up_to_three_digits(std)
    except PlanError:
        return math.inf


def realised_std(bag_size: int, fraction: float, width: float, target_mu: float) -> float:
    """Return the noise at which half of the bags pass with their first weights, by simulation.

    Bags without any noisy row never pass and count as such.
    """
    stream = public_stream("sizes", f"{bag_size} {fraction!r}")
    values = normals(stream, _TRIES * bag_size).reshape(_TRIES, bag_size)
    noisy = words(stream, values.size).reshape(values.shape) <= fraction * 2.0**64
    mu = realised_mu(values, noisy, width, 1.0)
    return round_up_to_three_digits(float(np.quantile(mu, _ACCEPTED, method="higher")) / target_mu)


def round_up_to_three_digits(value: float) -> float:
    """Round up to three figures, but for rounding: a number people can read back."""
    return float(Context(prec=3, rounding=ROUND_CEILING).create_decimal(f"{value:.12g}"))


# ---- mechanism

_BYTES = 21
"""Of one row in bags.parquet."""
_ROUNDING = 1e-9
_OTHER_NOISY_ROWS = f"{BAGS} does not mark the noisy rows that the plan chose"


class SampledNoisyWtdLag(Mechanism):
    """Noisy sums of the labels of m random bags, with public Gaussian weights (Algorithm 3).

    Plan (features only)
        1. choose bag size, number of bags and noise                     -> _choose_sizes
        2. draw bags, noisy rows and weights from the seed; with the accountant "exact", draw
           the weights of a bag again while its μ is above the target    -> claim.weights
        3. claim the largest μ of the bags, or what every draw keeps     -> plan
    Run (one pass for the rows of the bags)
        4. draw the same bags and weights from the seed, with that μ     -> claim.weights
        5. read the labels of the bags' rows                             -> bags.read_run
        6. publish Σ w·y plus noise, exactly rounded                     -> draw_sums
    Labels enter in step 5 and leave in step 6 alone. Their noise is drawn by
    `sampling/rounded_noise`; weights and noisy rows come from the public seed.
    """

    name = "sampled-noisy-wtd-lag"
    Options = SampledNoisyWtdLagOptions
    accountants = ("exact-worst-case", "exact")
    names_rows = True
    sections: ClassVar = {"draw": read_schema("draw"), "noise": read_schema("noise")}
    table_names = ("bags",)
    account_fields = ("bags", "bag_size", "noisy_fraction", "noise_std")

    # ---- planning

    def plan(
        self, request: Request, design: DesignSummary, source: Source, engine: Engine
    ) -> MechanismPlan:
        """Draw bags, weights and noisy rows; no label is read."""
        options, rows = request.options, design.facts.rows
        design.check_residual_left()
        # Bags, noise and, with the accountant "exact", μ are still open here, and follow below.
        draft = SampledNoisyWtdLagClaim(
            **design.claim_fields(request),
            bags=1,
            draw=Draw(rows, 1, 1, "", random=True, over_draw=options.over_draw),
            noise_std=1.0,
            noisy_fraction=options.noisy_fraction or 1.0,
            noisy_column=None,
            mu=1.0 if request.accountant == "exact" else None,
        )
        draft = self._choose_sizes(draft, options, design)
        bags, size, std = draft.bags, draft.draw.bag_size, draft.noise_std
        # A draw in which some bag has too few noisy rows is refused. No label takes part, and rows
        # stay equally likely to be in a bag, because they are noisy by coins of their own.
        claim = replace(draft, draw=bagging.fresh_draw(options, rows, bags, size, request.delta))
        weights = claim.weights()
        if claim.mu is not None and not options.over_draw:
            # The claim is about these very bags. Its μ is a hair above theirs, so that whoever
            # repeats the draw and rounds differently accepts the same weights.
            largest = float(realised_mu(weights.values, weights.noisy, claim.width, std).max())
            claim = replace(claim, mu=min(claim.mu, largest * (1 + _ROUNDING)))
        spent = claim.delta_at(claim.epsilon)
        if spent > claim.delta:
            raise PlanError(
                f"{bags:,} bags of {size:,} rows with noise of deviation {std:g} have "
                f"δ = {spent:.3g} at ε = {claim.epsilon:g}; make bags larger, more rows noisy, or "
                "the noise stronger"
            )
        expected = forecast(
            rows=size,
            rank=claim.rank,
            bags=bags,
            residual_ms=options.residual(claim.width),
            added_variance=float(weights.noisy.mean()) * std**2 * size,
            residual_source=options.residual_source,
        )
        sums = BagRows(design.features, claim.draw).read(source, engine).digest()
        return self.make_plan(design, claim, expected, feature_sums=sums)

    def _choose_sizes(
        self,
        draft: SampledNoisyWtdLagClaim,
        options: SampledNoisyWtdLagOptions,
        design: DesignSummary,
    ) -> SampledNoisyWtdLagClaim:
        """Return the claim with bags and noise: as asked, or the best of what is open."""
        fraction, residual_ms = draft.noisy_fraction or 1.0, options.residual(draft.width)

        def of_size(size: int) -> SampledNoisyWtdLagClaim:
            """Return the claim with bags of this size and the noise asked for, or the least."""
            most = min(draft.rows, int(options.megabytes() * 1e6 / _BYTES)) // size
            bags = options.bags or max(1, most)
            claim = replace(draft, bags=bags, draw=replace(draft.draw, bags=bags, bag_size=size))
            if claim.mu is not None:  # the target: the most that the budget allows in any bag
                target = calibrate(claim.privacy_profile, "mu", claim.epsilon, claim.delta)
                claim = replace(claim, mu=target)
            return replace(claim, noise_std=options.noise_std or least_noise(claim))

        def error(size: int) -> float:
            claim = of_size(size)
            # A plan refuses bags without any noisy row, of which there might be some.
            empty = claim.bags * (1.0 - fraction) ** size
            if empty > _MOST_EMPTY or (options.noise_std and least_noise(claim) > claim.noise_std):
                return math.inf
            excess = mean_excess(claim.rank, claim.bags)
            return (residual_ms + fraction * claim.noise_std**2) * excess

        size = options.bag_size
        if size is None:
            most = min(draft.rows // (options.bags or draft.rank + 2), MOST_TRIED_BAG_SIZE)
            cure = "make more rows noisy, add more noise"
            size = bagging.best_bag_size(bag_sizes(2, 2.0, most), error, design, cure)
        claim = of_size(size)
        if claim.noise_std == math.inf:
            raise PlanError(
                f"no noise makes {claim.bags:,} bags of {size:,} rows private at this budget; "
                "make bags larger or more rows noisy"
            )
        return claim

    # ---- run

    def run(
        self, plan: MechanismPlan, source: Source, engine: Engine, randomness: Randomness
    ) -> PendingRelease:
        """Read the rows of the bags in one pass; then draw one noisy sum of each bag."""
        claim, labels = plan.claim, plan.labels
        assert isinstance(claim, SampledNoisyWtdLagClaim)
        draw = claim.draw
        plan.check_source(source, (draw.rows, draw.bags) == (claim.rows, claim.bags))
        # Step 4. With the claim's μ as target, no bag has more.
        weights = claim.weights()
        # Step 5: labels enter.
        _, values = bagging.read_run(plan, claim.draw, source, engine, randomness)
        # Step 6: labels leave, as sums with noise of a public deviation.
        noise = weights.noise(claim.noise_std)
        grid = label_grid(noise)
        sums = draw_sums(weights, values, labels, claim.noise_std, grid, randomness)
        table = pa.table({NOISE: noise, label_column(source.label or "label"): sums})
        members = [*claim.draw.table().columns, weights.values.ravel(), weights.noisy.ravel()]
        return plan.pending_release(
            source,
            randomness,
            grid=grid,
            schema=table.schema,
            batches=table.to_batches(),
            files={"bags": pa.table(members, schema=WEIGHTED)},
        )

    # ---- reading a release

    def claim_from_json(self, document: Document) -> SampledNoisyWtdLagClaim:
        noise = document["noise"]
        fraction, mu = noise["fraction"], noise["mu"]
        return SampledNoisyWtdLagClaim(
            **read_common_fields(document),
            draw=Draw.from_json(document),
            noise_std=float(noise["std"]),
            noisy_fraction=None if fraction is None else float(fraction),
            noisy_column=noise["column"],
            mu=None if mu is None else float(mu),
        )

    def table_schemas(self, release: Release) -> dict[str, pa.Schema]:
        label = label_column(release.certificate["labels"]["column"])
        aggregates = pa.schema([(name, pa.float64()) for name in (NOISE, label)])
        return {"aggregates": aggregates, "bags": WEIGHTED}

    def label_model(self, release: Release) -> BagLabels:
        return BagLabels(column_numbers(release.table.column(NOISE)), release.files["bags"])

    def describe(self, document: Document) -> Facts:
        noise = document["noise"]
        std, column = f"deviation {number(noise['std'])} on", noise["column"]
        rows = f"rows marked by {column}" if column else f"{noise['fraction']:.0%} of the labels"
        return ("noise", f"{std} {rows}"), *describe_draw(document)

    # ---- verification

    def check(self, release: Release) -> Iterator[str]:
        claim = self.claim_from_json(release.certificate)
        bags = release.files["bags"]
        if problems := bagging.check_members(bags, claim.draw):
            yield from problems
            return
        weights = BagWeights.from_table(bags, claim.draw)
        if not np.isfinite(weights.values).all() or bags.column("noisy").null_count:
            yield f"{BAGS} has gaps, or weights that are not numbers"
            return
        fraction = claim.noisy_fraction
        if fraction and not np.array_equal(weights.noisy, noisy_by_coins(claim.draw, fraction)):
            yield _OTHER_NOISY_ROWS
        # With the claim's μ as target, weights that follow from the seed have no more. Others
        # could carry labels.
        expected = claim.weights(weights.noisy).values
        if not np.allclose(weights.values, expected, rtol=_ROUNDING, atol=_ROUNDING):
            yield f"{BAGS} does not hold the weights that the certificate's seed gives"
        noise = weights.noise(claim.noise_std)
        published = column_numbers(release.table.column(NOISE))
        same_length = len(published) == len(noise)
        if not same_length or not np.allclose(published, noise, rtol=_ROUNDING, atol=0.0):
            yield f"{AGGREGATES}: {NOISE} is not the noise of the bags"
            return
        if (yield from check_labels(release, claim, label_grid(noise))):
            constant = weights.values.sum(axis=1)[:, None]  # the design of a constant label
            yield from self._check_labels(release, claim, weights, constant)

    def check_features(self, release: Release, source: Source, engine: Engine) -> Iterator[str]:
        """Compare the features of the bags' rows, and the noisy rows, with the table's."""
        claim, features = self.claim_from_json(release.certificate), release.features
        rows = bagging.released_rows(release, claim.draw, source, engine)
        weights = BagWeights.from_table(release.files["bags"], claim.draw)
        if claim.noisy_column is not None:
            marks = noisy_by_column(source, claim.noisy_column)
            if not np.array_equal(weights.noisy, marks[claim.draw.members]):
                yield _OTHER_NOISY_ROWS
        sums = np.zeros((claim.bags, len(features.names)))  # Σ w·x of every bag
        for numbers, encoded in rows.blocks():
            design = stacked_design(features, encoded, numbers.stop - numbers.start)
            sums[numbers] = np.einsum("br,brc->bc", weights.values[numbers], design)
        yield from self._check_labels(release, claim, weights, sums)

    def _check_labels(
        self, release: Release, claim: SampledNoisyWtdLagClaim, weights: BagWeights, design: Reals
    ) -> Iterator[str]:
        """Check that labels vary about their fit to public columns of the bags as noise does."""
        noise, (low, high) = weights.noise(claim.noise_std), claim.label_range
        ends = np.sort([weights.values * low, weights.values * high], axis=0).sum(axis=2)
        rounding = _ROUNDING * np.abs(ends).max(axis=0)
        limits = ends[0] - rounding, ends[1] + rounding
        for problem in check_bag_labels(release.labels, noise, label_grid(noise), limits, design):
            yield f"{AGGREGATES} has {problem}"

    def not_checked(self, release: Release) -> Iterator[str]:  # noqa: ARG002
        yield (
            "whether labels of bags carry all of their noise: labels that vary widely within bags "
            "can take its place"
        )

    # ---- labeldp account

    def account(self, question: AccountQuestion) -> Document:
        """Return what bags of one size cost before any draw, and the μ of drawn ones."""
        fraction, std = question.needed("noisy_fraction"), question.needed("noise_std")
        size = question.needed("bag_size")
        profile = RandomWeightsProfile(size, question.label_range, fraction, std)
        a_priori = bagging.account_bags(question, profile)
        try:
            a_priori["min_noise_std"] = calibrate(profile, "noise_std", *question.budget)
        except PlanError:
            a_priori["min_noise_std"] = None
        realised = {"target_mu": largest_mu(*question.budget)}
        return {"accountants": {"exact": {"a_priori": a_priori, "realised": realised}}}


# ---- the steps of a run


def draw_sums(
    weights: BagWeights,
    values: Reals,
    labels: LabelGrid,
    noise_std: float,
    grid: int,
    randomness: Randomness,
) -> Reals:
    """Return round(Σ w·y + s√(Σ w² over noisy rows)·N(0,1)), one for each bag (step 6).

    Noise N(0, s²) on the labels of noisy rows adds N(0, s²Σw²) to the bag's sum, so that one draw
    of a public deviation replaces them. The mean is a sum of products of doubles and integers;
    exact fractions decide the rare draw whose rounding is in doubt.
    """
    codes = labels.codes(values) + labels.centre
    scale = Fraction(noise_std) * Fraction(2) ** -labels.exponent
    size = np.abs(weights.values * codes).sum(axis=1)
    std = weights.noise(float(scale))
    margin = (values.shape[1] + 8) * 2.0**-52  # relative error of a sum of so many products

    def exact(row: int, precision: int) -> tuple[Any, Any]:  # noqa: ARG001
        pairs = zip(weights.values[row], codes[row], strict=True)
        mean = sum((Fraction(float(w)) * int(c) for w, c in pairs), Fraction(0))
        drawn = weights.values[row][weights.noisy[row]]
        square = scale**2 * sum((Fraction(float(w)) ** 2 for w in drawn), Fraction(0))
        return rounded_noise.ball(mean), rounded_noise.ball(square).sqrt()

    cells = rounded_noise.sample_rounded(
        np.einsum("ij,ij->i", weights.values, codes),
        margin * size,
        (std * (1 - margin), std * (1 + margin)),
        grid - labels.exponent,
        randomness,
        exact,
    )
    return np.ldexp(cells, labels.exponent)
