"""noisy-rows: every row's label with independent noise, for any learner (theory §11).

Privacy: one label moves one published number by at most Δ, the width of the label range. Laplace
noise of scale b then is pure ε-DP with ε = Δ/b; Gaussian noise of deviation s is a Gaussian
mechanism with μ = Δ/s. The k labels of a person move k numbers by Δ each: Laplace noise pays for
the sum kΔ, Gaussian noise for the length √k·Δ. The guarantee needs no assumption about the data.

Labels of two declared classes are changed at random instead (randomized response): one is kept with
probability p = 1/(1 + e^{−ε}), which is pure ε-DP, and published as the one of two public numbers,
p/(2p − 1) and (p − 1)/(2p − 1), whose mean is the label. Their variance about it is
p(1 − p)/(2p − 1)² = 1/(2 sinh(ε/2))², less than Laplace's 2/ε² at every ε.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy.special import chdtri

from labeldp.accounting.gaussian import GaussianProfile, largest_mu
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.radial import LaplaceProfile, TwoPointProfile
from labeldp.arrow_util import arrow_numbers, numpy_numbers
from labeldp.data.source import Source
from labeldp.display import Document, Facts, number
from labeldp.errors import DataError, InputError, PlanError, one_of
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.label_sums import LabelGrid
from labeldp.features.encoder import Encoder
from labeldp.features.feature_map import FeatureMap, raw_columns, raw_schema
from labeldp.mechanisms import checks
from labeldp.mechanisms.base import OTHER_FEATURES, Mechanism, MechanismPlan, RowLabels, read_schema
from labeldp.mechanisms.checks import check_labels, other_table
from labeldp.mechanisms.design_summary import DesignSummary, most_rows
from labeldp.mechanisms.forecast import QUANTILES, Spread, explained_ms, shrunken_ms
from labeldp.mechanisms.noise_claim import NoiseClaim
from labeldp.mechanisms.options import GAUSSIAN, AccountQuestion, NoisyRowsOptions, PlanRequest
from labeldp.passes.engine import Engine
from labeldp.releases.certificate import GAUSSIANS, FloorOutcome, read_common_fields
from labeldp.releases.pending import AGGREGATES, ROW, PendingRelease, label_column
from labeldp.releases.tables import digest_of, table_digest
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import Randomness

if TYPE_CHECKING:
    from labeldp.releases.files import Release

Request = PlanRequest[NoisyRowsOptions]

# ---- the two noise laws

_GAUSSIAN_ROOM = 1 - 1e-9
_LAPLACE_ROOM = 1 - 2.0**-48
"""A budget is used up to this share, so that rounding never breaks it."""
_UP = 1 + 2.0**-50
_MOST_HALF_EPSILON = 350.0
LAPLACE = "laplace"
RANDOMIZED_RESPONSE = "randomized-response"
ROW_NOISE_LAWS = (LAPLACE, GAUSSIAN)
_RESPONSE_GRID, _RESPONSE_BITS = -40, 50
"""The two numbers are rounded to this grid, or to so many bits if they are large."""


@dataclass(frozen=True)
class RowNoise:
    """Independent Laplace or Gaussian noise on every label, or classes that change at random."""

    name: str
    scale: float
    """In label units; of randomized response 1/ε of one row."""

    def __post_init__(self) -> None:
        # Claims may come from anyone's file.
        one_of("law", self.name, (*ROW_NOISE_LAWS, RANDOMIZED_RESPONSE))

    @property
    def is_pure(self) -> bool:
        """Whether it spends no δ: all but Gaussian noise."""
        return self.name != GAUSSIAN

    @property
    def is_response(self) -> bool:
        """Whether classes change at random."""
        return self.name == RANDOMIZED_RESPONSE

    @property
    def std(self) -> float:
        if self.is_response:
            return 0.5 / math.sinh(min(0.5 / self.scale, _MOST_HALF_EPSILON))
        return (math.sqrt(2.0) if self.is_pure else 1.0) * self.scale

    @property
    def grid(self) -> int:
        """The exponent of the public grid's step."""
        if self.is_response:
            return max(_RESPONSE_GRID, math.frexp(self.scale + 1)[1] - _RESPONSE_BITS)
        return rounded_noise.grid_for(self.scale)

    @property
    def responses(self) -> tuple[float, float]:
        """The two numbers that are published for the first and the second class, on the grid."""
        high = round(math.ldexp(-1 / math.expm1(-1 / self.scale), -self.grid))
        return math.ldexp(round(math.ldexp(1.0, -self.grid)) - high, self.grid), math.ldexp(
            high, self.grid
        )

    def reach(self, width: float, rows: int) -> float:
        """Return the norm that counts, of `rows` labels that all move by `width`."""
        return width * (float(rows) if self.is_pure else math.sqrt(rows))

    def privacy_profile(self, width: float, rows: int) -> PrivacyProfile:
        """Return what is guaranteed to so many rows together; the move is rounded up."""
        pure = TwoPointProfile if self.is_response else LaplaceProfile
        profile = pure if self.is_pure else GaussianProfile
        return profile(self.reach(width, rows) / self.scale * _UP)


def needed_noise(
    name: str, width: float, rows: int, epsilon: float, delta: float
) -> RowNoise | None:
    """Return the least noise of a law that covers `rows` labels; None if no noise is enough."""
    unit = RowNoise(name, 1.0)
    # The largest move of all labels, in scales of the noise, that (ε, δ) allows.
    allowed = epsilon if unit.is_pure else largest_mu(epsilon, delta)
    move = allowed * (_LAPLACE_ROOM if unit.is_pure else _GAUSSIAN_ROOM)
    return RowNoise(name, unit.reach(width, rows) / move) if move > 0 else None


def least_noise(
    width: float, rows: int, epsilon: float, delta: float, *, classes: bool = False
) -> RowNoise:
    """Return the noise of least variance; with δ = 0 never Gaussian noise.

    `classes`: labels are of two declared classes, and may change at random.
    """
    laws = (*ROW_NOISE_LAWS, RANDOMIZED_RESPONSE) if classes else ROW_NOISE_LAWS
    offers = (needed_noise(name, width, rows, epsilon, delta) for name in laws)
    return min((noise for noise in offers if noise), key=lambda noise: noise.std)


# ---- claim

LAPLACE_DRAWS = "exactly rounded Laplace noise on a public grid"
RESPONSE_DRAWS = "randomized response by exact thresholds"


@dataclass(frozen=True, kw_only=True)
class NoisyRowsClaim(NoiseClaim):
    """`bags` rows, each with its own label and noise."""

    mechanism: ClassVar[str] = "noisy-rows"

    noise: RowNoise
    with_features: bool

    @property
    def privacy_profile(self) -> PrivacyProfile:
        return self.noise.privacy_profile(self.width, self.protected)

    @property
    def sampler_description(self) -> str:
        if self.noise.is_response:
            return RESPONSE_DRAWS
        return LAPLACE_DRAWS if self.noise.is_pure else GAUSSIANS

    @property
    def excess_spread(self) -> Spread:
        """The sum of squares that noise adds to the predictions of all rows: d·Var on average.

        Quantiles are exact for Gaussian noise, nearly so for Laplace noise, of which a fit adds up
        many draws.
        """
        rank, mean = self.rank, self.rank * self.noise.std**2
        return Spread(mean, *(mean * float(chdtri(rank, 1 - q)) / rank for q in QUANTILES))

    def label_noise_std(self, outcome: FloorOutcome | None) -> float:  # noqa: ARG002
        return self.noise.std

    @property
    def basis(self) -> str:
        which = "which" if self.person is None else "of as many rows as a person has, each of which"
        return (
            f"independent noise on every row's label, {which} moves by label_width at most; "
            "nothing is assumed of the labels"
        )

    def own_fields(self) -> Document:
        return {
            "bag_size": 1,
            "row_noise": {
                "law": self.noise.name,
                "scale": self.noise.scale,
                "std": self.noise.std,
                "with_features": self.with_features,
            },
        }


# ---- mechanism

_MOST_STEPS = 2.0**50
"""Labels count fewer steps of their grids than this, so that doubles hold them exactly."""
_SCALE_TOLERANCE = 1e-6


class NoisyRows(Mechanism):
    """Every row's label with Laplace or Gaussian noise, or of two classes changed at random.

    `plan`, from features only
        1. count the rows of the largest person, if persons are covered          -> most_rows
        2. choose the law of least variance, Laplace, Gaussian or, of two
           classes, randomized response, and its scale                            -> least_noise
        3. check that doubles hold labels and noise exactly; forecast the error of a fit -> plan
    `run`, one pass over features, one over labels
        4. check that the table's features and persons are those of the plan      -> run
        5. read labels in a stream; draw round(y + scale·noise) for every row, or change
           classes at random                                                      -> noisy_labels
        6. publish nothing unless the stream ends and all labels were as declared -> run
    Labels enter in step 5, and leave there with their noise, drawn by `sampling/rounded_noise`.
    """

    name = "noisy-rows"
    Options = NoisyRowsOptions
    covers_persons = True
    names_rows = True
    allows_pure = True
    closed_form = True
    sections: ClassVar = {"row_noise": read_schema("row_noise")}
    account_fields = ("features", "person_rows")

    def plan(
        self, request: Request, design: DesignSummary, source: Source, engine: Engine
    ) -> MechanismPlan:
        """Fix the noise from budget and label range; features serve the forecast and learners."""
        options = request.options
        if not design.factor.rank:
            raise DataError("no feature column is left, so there is nothing to learn from")
        if options.with_features and ROW in design.features.columns:
            raise InputError(
                f"a feature column is called {ROW!r}, like the row's number; rename it, or leave "
                "`with_features` out"
            )
        person = most_rows(design.features, source, engine)
        together = person.rows if person else 1
        budget, classes = (request.epsilon, request.delta), source.classes is not None
        noise = least_noise(design.facts.width, together, *budget, classes=classes)
        if noise.is_pure:
            # All but Gaussian noise spend no δ; the claim states the strongest guarantee that is
            # true.
            request = replace(request, delta=0.0)
        claim = NoisyRowsClaim(
            **design.claim_fields(request),
            bags=design.facts.rows,
            noise=noise,
            with_features=options.with_features,
            person=person,
        )
        low, high = design.labels.range
        if max(-low, high) >= math.ldexp(_MOST_STEPS, min(noise.grid, design.labels.exponent)):
            # So far from 0 doubles could not hold label and noise exactly.
            raise InputError(
                f"`label_range` {low:g} {high:g} is too far from 0 for its width; subtract a "
                "public number from all labels"
            )
        forecast = claim.forecast(options.residual(claim.width), options.residual_source)
        # What noise adds to shrunken predictions: one variance in all directions.
        variance, mean_columns = noise.std**2, int(claim.intercept)
        shrunken = shrunken_ms(
            [variance] * (claim.rank - mean_columns),
            variance * mean_columns,
            rows=claim.rows,
            width=claim.width,
            explained=explained_ms(claim.width, options.residual_guess or 0.0),
        )
        return self.make_plan(design, claim, replace(forecast, added_mse_default_fit=shrunken))

    def run(
        self, plan: MechanismPlan, source: Source, engine: Engine, randomness: Randomness
    ) -> PendingRelease:
        """Check the features in one pass; then draw noisy labels as a second pass reads them."""
        claim, features = plan.claim, plan.features
        assert isinstance(claim, NoisyRowsClaim)
        plan.check_source(source, claim.bags == claim.rows)
        randomness.spend()
        files_before = source.state()
        gram = engine.run_pass("feature sums", source, GramAccumulator(features))
        plan.check_feature_sums(gram.digest())
        person = most_rows(features, source, engine)
        if person is not None and person.rows > claim.protected:
            raise PlanError(OTHER_FEATURES)
        schema = row_schema(features, source.label or "label", with_features=claim.with_features)

        def batches() -> Iterator[pa.RecordBatch]:
            # `finish` refuses labels that were not as declared, and only after the last row, so
            # that the refusal says nothing about where they stand. Whoever writes the batches
            # keeps none of them if this raises.
            label_check, rows = source.label_check(), 0
            columns = features.columns if claim.with_features else ()
            with engine.progress("noisy rows", claim.rows) as advance:
                for numbers, batch, labels in source.numbered_batches(columns, label_check):
                    assert labels is not None
                    raw = raw_columns(features, batch).columns if claim.with_features else []
                    noisy = noisy_labels(labels, plan.labels, claim.noise, randomness)
                    yield pa.RecordBatch.from_arrays(
                        [arrow_numbers(numbers), *raw, arrow_numbers(noisy)], schema=schema
                    )
                    rows += len(numbers)
                    advance(len(numbers))
            label_check.finish()
            if rows != claim.rows:
                raise PlanError(OTHER_FEATURES)
            # Features were checked in an earlier pass, so the files must still be the same.
            if source.state() != files_before:
                raise DataError(
                    "the files changed while they were read; leave them alone, run again"
                )

        return plan.pending_release(
            source, randomness, grid=claim.noise.grid, schema=schema, batches=batches()
        )

    # ---- reading a release

    def claim_from_json(self, document: Document) -> NoisyRowsClaim:
        noise = document["row_noise"]
        return NoisyRowsClaim(
            **read_common_fields(document),
            noise=RowNoise(str(noise["law"]), float(noise["scale"])),
            with_features=bool(noise["with_features"]),
        )

    def describe(self, document: Document) -> Facts:
        claim = self.claim_from_json(document)
        title = claim.noise.name.replace("-", " ").capitalize()
        std = number(claim.noise.std)
        pure = " (pure: δ = 0)" if claim.noise.is_pure else ""
        columns = "row number, label" + (" and raw features" if claim.with_features else "")
        noise = f"{title}, deviation {std} on every label{pure}"
        return ("noise", noise), ("columns", columns)

    def table_schemas(self, release: Release) -> dict[str, pa.Schema]:
        label = release.certificate["labels"]["column"]
        with_features = release.certificate["row_noise"]["with_features"]
        return {"aggregates": row_schema(release.features, label, with_features=with_features)}

    def label_model(self, release: Release) -> RowLabels:
        noise = release.certificate["row_noise"]
        std = float(noise["std"])
        # Of randomized response 1/(p(1 − p)) − 3, as of any Bernoulli variable, by its deviation.
        of_response = 1 + max(std, 1e-9) ** -2
        kurtosis = {LAPLACE: 6.0, RANDOMIZED_RESPONSE: of_response}.get(noise["law"], 3.0)
        return RowLabels(std, kurtosis)

    # ---- verification

    def check(self, release: Release) -> Iterator[str]:
        claim, features = self.claim_from_json(release.certificate), release.features
        if claim.bags != claim.rows:
            yield f"certificate: {claim.bags} labels are not those of {claim.rows} rows"
        classes = "classes" in release.certificate["labels"]
        budget = claim.epsilon, claim.delta
        least = least_noise(claim.width, claim.protected, *budget, classes=classes)
        same_scale = math.isclose(claim.noise.scale, least.scale, rel_tol=_SCALE_TOLERANCE)
        if claim.noise.name != least.name or not same_scale:
            yield "certificate: the noise is not that of the budget"
        yield from self._check_row_numbers(release)
        unsound = list(check_labels(release, claim, claim.noise.grid))
        yield from unsound
        if unsound:
            return
        labels = release.label_chunks()
        if claim.noise.is_response:
            problems = checks.check_responses(
                labels, claim.rows, claim.noise.responses, claim.noise.scale
            )
        else:
            problems = checks.check_noise(self._noisy_labels(claim), labels, claim.rows)
        for problem in problems:
            yield f"{AGGREGATES} has {problem}"
        if not release.needs_rows:  # released features must have the sums of the certificate
            encode, total = Encoder(features), GramAccumulator(features).new()
            for batch in release.table.to_batches():
                total.add(encode(batch.select(list(features.columns))))
            if total.result().digest() != release.certificate["digests"]["feature_sums"]:
                yield f"{AGGREGATES} has features that are not those of the certificate"

    def _check_row_numbers(self, release: Release) -> Iterator[str]:
        """Check that row numbers increase, a part at a time."""
        last = -1
        for batch in release.table.select([ROW]).to_batches():
            numbers = numpy_numbers(batch.column(0))
            if batch.column(0).null_count or (np.diff(numbers, prepend=last) < 1).any():
                yield f"{AGGREGATES} does not name rows by increasing numbers"
                return
            last = int(numbers[-1]) if len(numbers) else last
        if release.certificate["labels"]["missing"] == "refused" and last >= release.table.num_rows:
            yield f"{AGGREGATES} leaves out rows, though none was dropped"

    def _noisy_labels(self, claim: NoisyRowsClaim) -> checks.NoisyLabels:
        noise = claim.noise
        law = checks.LAPLACE_TAILS if noise.is_pure else checks.NORMAL_TAILS
        return checks.NoisyLabels(law, noise.scale, *claim.label_range, noise.grid)

    def not_checked(self, release: Release) -> Iterator[str]:
        claim = self.claim_from_json(release.certificate)
        if claim.noise.is_response:
            yield (
                "whether classes were changed at random: how many rows are of each class is not "
                "known, so only numbers beyond what change leaves of any labels would show"
            )
            return
        labels = release.label_chunks()
        yield from checks.untested_noise(self._noisy_labels(claim), labels, claim.rows)

    def check_features(self, release: Release, source: Source, engine: Engine) -> Iterator[str]:
        claim, features = self.claim_from_json(release.certificate), release.features
        gram = engine.run_pass("feature sums", source, GramAccumulator(features))
        if (problem := other_table(release, gram)) is not None:
            yield problem
            return
        person = most_rows(features, source, engine)
        if person is not None and person.rows > claim.protected:
            yield f"a person has {person.rows} rows, the certificate says {claim.protected} at most"
        with_features = not release.needs_rows
        columns = features.columns if with_features else ()
        published = release.table.select([ROW, *columns])

        def rows() -> Iterator[pa.Table]:
            for numbers, batch, _ in source.numbered_batches(columns):
                raw = raw_columns(features, batch).columns if with_features else []
                yield pa.Table.from_arrays([arrow_numbers(numbers), *raw], schema=published.schema)

        if digest_of(published.schema, rows()) != table_digest(published):
            yield f"{AGGREGATES} has row numbers or features that are not the table's"

    # ---- labeldp account

    def account(self, question: AccountQuestion) -> Document:
        """Return the noise on every label by both laws, and the error it adds to a linear fit."""
        together, budget = question.person_rows or 1, question.budget
        best = least_noise(question.width, together, *budget)
        answer: Document = {"law": best.name, "scale": best.scale, "noise_std": best.std}
        for name in ROW_NOISE_LAWS:
            noise = needed_noise(name, question.width, together, *budget)
            answer[f"{name}_std"] = noise and noise.std
        if question.features is not None:
            # root mean square that noise adds to a least-squares prediction: √(d·Var/n)
            answer["added_error"] = best.std * math.sqrt(question.features / question.rows)
        return answer


# ---- shared functions


def noisy_labels(
    values: NDArray[np.float64], labels: LabelGrid, noise: RowNoise, randomness: Randomness
) -> NDArray[np.float64]:
    """Return round(y + scale·noise) on the public grid, one for each label (step 5).

    A label is an integer on the public label grid and the scale is public, so that the mean of
    every draw is known without error. Rows are drawn in the order of the table from one stream of
    random words, so batches of any size give the same numbers.
    """
    if noise.is_response:
        second = rounded_noise.randomized_response(values == 1.0, noise.scale, randomness)
        return np.where(second, noise.responses[1], noise.responses[0])
    codes = labels.codes(values) + labels.centre
    scale = math.ldexp(noise.scale, -labels.exponent)

    cells = rounded_noise.sample_rounded(
        codes,
        np.zeros(len(codes)),
        (scale, scale),
        noise.grid - labels.exponent,
        randomness,
        lambda row, _: (rounded_noise.ball(codes[row]), rounded_noise.ball(scale)),
        rounded_noise.LAPLACE if noise.is_pure else rounded_noise.NORMAL,
    )
    return np.ldexp(cells, labels.exponent)


def row_schema(features: FeatureMap, label: str, *, with_features: bool) -> pa.Schema:
    """Return the columns of a release of rows: row number, raw features if released, label."""
    raw = list(raw_schema(features)) if with_features else []
    row = pa.field(ROW, pa.int64(), nullable=False)
    return pa.schema([row, *raw, pa.field(label_column(label), pa.float64(), nullable=False)])
