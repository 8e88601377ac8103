"""What a mechanism is: the base class, and the plan that a mechanism makes.

A mechanism works in two stages. `Mechanism.plan` sees features and public facts, never labels,
and returns a `MechanismPlan` whose claim fixes the whole privacy profile. `Mechanism.run` reads
the labels and returns a `PendingRelease`; nothing it sees can change the claim (theory §6).
Everything that others ask of a mechanism (verification, learners, `labeldp account`, texts for
people) is a method of the same class.
"""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.data.source import Source
from labeldp.display import Document, Facts, number
from labeldp.errors import InputError, PlanError, ReleaseError
from labeldp.exact.cholesky import VerifiedCholesky, verified_cholesky
from labeldp.exact.gram import FeatureGram, GramAccumulator
from labeldp.exact.label_sums import LabelGrid
from labeldp.exact.row_norms import Weights
from labeldp.features.feature_map import FeatureMap
from labeldp.io_util import json_digest
from labeldp.mechanisms.checks import other_table
from labeldp.mechanisms.design_summary import DesignSummary
from labeldp.mechanisms.forecast import Forecast, explained_ms
from labeldp.mechanisms.options import AccountQuestion, PlanRequest
from labeldp.passes.engine import Engine
from labeldp.releases.certificate import Claim, FloorOutcome, randomness_fields
from labeldp.releases.pending import PendingRelease, aggregate_schema
from labeldp.sampling.streams import Randomness

if TYPE_CHECKING:  # releases look up their mechanism, so they are defined above this module
    from labeldp.releases.files import Release

OTHER_FEATURES = "the features are not those of the plan; plan again on this table"
CONTRADICTION = "the plan contradicts itself; plan again"
MOST_NA, MOST_NA_LETTERS = 32, 64
"""Of the texts that mean a missing label: without a limit a certificate could list labels there."""
LEAST_KEPT, ENOUGH_KEPT = 0.1, 0.5
"""Shares of what features explain that a release keeps: a plan that keeps less than the first is
refused, and one below the second has a warning."""


def read_schema(name: str) -> Document:
    """Return the JSON schema of a section of the certificate, or of the whole."""
    path = Path(__file__).parent / "schemas" / f"{name}.schema.json"
    schema: Document = json.loads(path.read_text(encoding="utf-8"))
    return schema


def _missing_texts(source: Source) -> list[str]:
    """Return which texts mean a missing label, for whoever drops the same rows again."""
    codes = (f"{source.label}={code}" for code in source.reader.options.codes(str(source.label)))
    return [*source.missing_words, *codes]


# --- what learners may assume about the labels of a release ---


@dataclass(frozen=True)
class RowLabels:
    """One label for every row, with independent noise of one distribution."""

    std: float
    """Standard deviation of the noise."""
    kurtosis: float = 3.0
    """Kurtosis of the noise; 3 if it is normal."""


@dataclass(frozen=True, eq=False)
class BagLabels:
    """Labels aggregated over bags of rows; the features stay in the curator's table."""

    std: NDArray[np.float64] = field(repr=False)
    """Standard deviation of the noise on each bag's label."""
    bags: pa.Table = field(repr=False)
    """Columns `bag`, `row` and `weight`: the rows of each bag, and their weights."""


@dataclass(frozen=True)
class NoisySecondMoment:
    """Σ(y − c)² over all rows, with noise."""

    value: float
    std: float
    """Standard deviation of the noise."""
    centre: float
    """c."""


@dataclass(frozen=True, eq=False)
class SumLabels:
    """As many sums over all rows as design columns, with public weights and independent noise."""

    std: NDArray[np.float64] = field(repr=False)
    """Standard deviation of the noise on each label."""
    weights: NDArray[np.float64] = field(repr=False)
    """C, sums × design columns: a row x of the design, in its scales, has the weights C·x."""
    radial: bool = False
    """Whether the noise vector is radial; else its entries are normal."""
    second_moment: NoisySecondMoment | None = None
    """None if it was not published."""
    residual: tuple[float, float] | None = None
    """Of releases without a second moment: the noisy root of the residual sum of squares, and the
    standard deviation of its noise."""


@dataclass(frozen=True)
class SketchedLabels:
    """Sums of features and label with secret weights: a fit estimates its own noise."""

    share: float = 1.0
    """Share of all rows that a sum has."""
    added_variance: float = 0.0
    """Variance of the noise that was added to every label."""


LabelModel = RowLabels | BagLabels | SumLabels | SketchedLabels


# --- plans ---


@dataclass(frozen=True)
class MechanismPlan:
    """What a mechanism will publish and what it promises. Every field is public."""

    mechanism: Mechanism = field(repr=False, compare=False)
    claim: Claim
    features: FeatureMap
    labels: LabelGrid
    feature_sums: str
    """SHA-256 of the exact feature sums (of the bags' rows, if rows are drawn): the run must see
    the same features."""
    forecast: Forecast
    notes: tuple[str, ...] = ()
    factor: VerifiedCholesky | None = field(default=None, compare=False)
    """Cholesky factor of those sums, if planning has computed it; plan files do not hold it."""
    weights: Weights | None = field(default=None, compare=False)
    """The public weights of shaped-flag; None for other mechanisms."""
    force: bool = False
    """Whether the user went on although the plan cannot beat the constant predictor."""
    table: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Which label and text options the source was scanned with (`Source.keywords`): a release reads
    the table in the same way."""
    design: DesignSummary | None = field(default=None, repr=False, compare=False)
    """What it was planned from, so that a refusal searches no noise shape twice; a `Plan` does not
    hold it."""

    # ---- utility
    #
    # Predictions beat the constant one (the mean of all labels) if privacy adds less to the mean
    # square of their error than features explain. What features explain is unknown until labels
    # are read; the yardstick is what they may explain of favourable labels.

    @property
    def explained_mse(self) -> float:
        """What features are taken to explain (`explained_ms`)."""
        low, high = self.labels.range
        stated = self.forecast.residual_source == "stated"
        return explained_ms(high - low, self.forecast.residual_ms if stated else 0.0)

    @property
    def explained_share_kept(self) -> float:
        """The share of what features may explain that predictions keep; below 0 the mean of the
        labels is the better prediction."""
        explained = self.explained_mse
        return 1 - self.forecast.added_mse_default_fit / explained if explained else -math.inf

    @property
    def is_useful(self) -> bool:
        """Whether predictions may beat the mean of the labels, by the forecast."""
        return self.explained_share_kept >= LEAST_KEPT

    @property
    def utility_message(self) -> str:
        """What privacy does to predictions, in words."""
        low, high = self.labels.range
        error, kept = math.sqrt(self.forecast.added_mse), max(0.0, self.explained_share_kept)
        size = "adds errors without bound"
        if math.isfinite(error):
            size = (
                f"adds {number(error, 3)} to a prediction (root mean square, "
                f"{error / (high - low):.2g} of the label range)"
            )
        return (
            f"privacy {size} and leaves at most {kept:.0%} of what features may explain: a fit "
            f"{'may not be' if kept else 'is not'} better than the mean of the labels"
        )

    # ---- for the run

    def check_source(self, source: Source, *consistent: bool) -> None:
        """Refuse a source that is not the planned one, and a plan that contradicts itself.

        Runs begin with this, before a label is read. Plan files may have been edited, so that
        nothing in them is trusted: `consistent` are the conditions of the mechanism's own fields.
        """
        labels, claim, features = self.labels, self.claim, self.features
        if claim.superseded:
            raise PlanError(f"{claim.superseded}; plan again")
        if self.table.get("label", source.label) != source.label:
            raise PlanError(
                f"the plan is for the labels {self.table['label']!r}; name these, or plan again"
            )
        classes = self.table.get("classes")
        if source.classes != (classes and tuple(classes)):
            said = f"the classes {classes[0]!r} and {classes[1]!r}" if classes else "no classes"
            raise PlanError(f"the plan is for labels with {said}; scan the table so, or plan again")
        if source.label_range != (labels.low, labels.high):
            raise PlanError(
                f"the plan is for labels from {labels.low:g} to {labels.high:g}; "
                "scan the table with that label range"
            )
        person = None if claim.person is None else claim.person.column
        if source.person != person:
            whose = "single rows (no `person`)" if person is None else f"persons (`{person=}`)"
            raise PlanError(f"the plan is for {whose}; scan the table with that, or plan again")
        self.mechanism.check_source(source)
        texts = _missing_texts(source) if source.drop_missing_labels else []
        if len(texts) > MOST_NA or any(len(text) > MOST_NA_LETTERS for text in texts):
            raise PlanError(
                f"the certificate lists at most {MOST_NA} texts of {MOST_NA_LETTERS} letters that "
                "mean a missing label (`na`); give fewer or shorter ones, or recode the labels"
            )
        agrees = (
            labels == LabelGrid.for_range((labels.low, labels.high), intercept=features.intercept)
            and claim.label_range == labels.range
            and claim.rows == features.rows
            and claim.rank == len(features.names)
            and claim.intercept is (features.constant is not None)
            and all(consistent)
        )
        if not agrees or not claim.delta_at(claim.epsilon) <= claim.delta:
            raise PlanError(CONTRADICTION)

    def check_feature_sums(self, digest: str) -> None:
        """Refuse a run whose features are not those of the plan."""
        if digest != self.feature_sums:
            raise PlanError(OTHER_FEATURES)

    def factor_of(self, gram: FeatureGram, *, saturated: bool = False) -> VerifiedCholesky:
        """Return the factor of these feature sums; the one of planning if it is at hand.

        Without `saturated` as many independent columns as rows are refused.
        """
        kept, factor = self.features.kept_columns, self.factor
        if factor is None or factor.kept != kept or not factor.is_of(gram):
            factor = verified_cholesky(gram, self.features, saturated=saturated)
            if factor.kept != kept:
                raise PlanError(OTHER_FEATURES)
        return factor

    def pending_release(
        self,
        source: Source,
        randomness: Randomness,
        *,
        grid: int,
        schema: pa.Schema,
        batches: Iterable[pa.RecordBatch],
        files: Mapping[str, pa.Table] | None = None,
        outcome: FloorOutcome | None = None,
        more_fields: Mapping[str, Any] | None = None,
    ) -> PendingRelease:
        """Return what a run draws, with all that its certificate will say beside the claim.

        `grid` is the exponent of the public grid of the published labels, `outcome` what was
        published about a residual floor, and `more_fields` stand in the certificate as well. All
        other fields are public and fixed before labels are read.
        """
        labels: Document = {
            "column": source.label,
            "outside_range": "clipped" if source.clip else "refused",
            "missing": "rows dropped" if source.drop_missing_labels else "refused",
        }
        if (left_out := source.rows_left_out(self.features.rows)) is not None:
            labels["rows_left_out"] = left_out
        if source.drop_missing_labels and (texts := _missing_texts(source)):
            labels["na"] = texts
        if source.classes is not None:
            labels["classes"] = list(source.classes)
        return PendingRelease(
            self.features,
            schema,
            batches if isinstance(batches, Generator) else (batch for batch in batches),
            self.claim,
            outcome,
            {
                "numerics": {
                    "aggregate_labels": self.claim.sampler_description,
                    "grid_exponent": grid,
                    "label_exponent": self.labels.exponent,
                    "feature_sums": "exact integers",
                    "residual": "rigorous enclosure",
                },
                "randomness": randomness_fields(randomness.private),
                "labels": labels,
                "ledger": None,
                "about": None,
                "released_at": None,
                "anyway": self.force,
                "digests": {
                    "bags": None,
                    "features": json_digest(self.features.to_json()),
                    "feature_sums": self.feature_sums,
                },
                **(more_fields or {}),
            },
            files or {},
        )


class Mechanism(ABC):
    """One way to publish. Mechanisms have no state: `registry` holds one object of each class."""

    name: ClassVar[str]
    """As on the command line."""
    Options: ClassVar[type[Any]]
    """A frozen dataclass of options, which checks them; see `options.py`."""
    accountants: ClassVar[tuple[str, ...]] = ("exact",)
    former_accountants: ClassVar[tuple[str, ...]] = ()
    """Of earlier releases. Their claims are priced by the law of today (`privacy_profile`), which
    promises no less than what they state."""
    covers_persons: ClassVar[bool] = False
    """Whether all rows of a person can be covered together; else such a source is refused."""
    names_rows: ClassVar[bool] = False
    """Whether releases name rows by their numbers, which rows on Spark do not have."""
    allows_pure: ClassVar[bool] = False
    """Whether δ = 0 can be asked for."""
    closed_form: ClassVar[bool] = False
    """Whether the forecast is the exact law of the fit's error, so that `auto` may rely on it."""
    sections: ClassVar[Mapping[str, Document]] = {}
    """JSON schemas of the certificate's sections that are this mechanism's own."""
    table_names: ClassVar[tuple[str, ...]] = ()
    """Tables beside the aggregates, each in NAME.parquet with its digest in `digests.NAME`."""
    account_fields: ClassVar[tuple[str, ...]] = ()
    """Fields of `AccountQuestion` that `account` uses beside the common ones."""

    @abstractmethod
    def plan(
        self, request: PlanRequest[Any], design: DesignSummary, source: Source, engine: Engine
    ) -> MechanismPlan:
        """Decide what to publish, from features and public facts; no label is read."""

    def make_plan(
        self,
        design: DesignSummary,
        claim: Claim,
        forecast: Forecast,
        notes: Iterable[str] = (),
        weights: Weights | None = None,
        feature_sums: str | None = None,
    ) -> MechanismPlan:
        """Return the plan of a claim; `feature_sums`: of the bags' rows, if rows are drawn."""
        return MechanismPlan(
            self,
            claim,
            design.features,
            design.labels,
            feature_sums or design.feature_sums,
            forecast,
            (*notes, *design.notes),
            None if feature_sums else design.factor,
            weights,
            design=design,
        )

    @abstractmethod
    def run(
        self, plan: MechanismPlan, source: Source, engine: Engine, randomness: Randomness
    ) -> PendingRelease:
        """Read the labels once and draw what is published."""

    @abstractmethod
    def claim_from_json(self, document: Document) -> Claim:
        """Return the claim of a plan or certificate.

        Raises KeyError, TypeError or ValueError if the document holds none.
        """

    @abstractmethod
    def check(self, release: Release) -> Iterator[str]:
        """Yield where published numbers contradict the claim."""

    def check_features(self, release: Release, source: Source, engine: Engine) -> Iterator[str]:
        """Yield where a table's features contradict the release: its rows and its sums."""
        gram = engine.run_pass("feature sums", source, GramAccumulator(release.features))
        if (problem := other_table(release, gram)) is not None:
            yield problem

    def describe(self, document: Document) -> Facts:  # noqa: ARG002
        """Describe a plan or certificate to people."""
        return ()

    def not_checked(self, release: Release) -> Iterator[str]:  # noqa: ARG002
        """Yield what `check` cannot see in a release that passes it."""
        return iter(())

    def table_schemas(self, release: Release) -> dict[str, pa.Schema]:
        """Return the schemas of all tables of a release; `aggregates` holds the labels."""
        label = release.certificate["labels"]["column"]
        return {"aggregates": aggregate_schema(release.features, label)}

    def label_model(self, release: Release) -> LabelModel:  # noqa: ARG002
        """Return what learners may assume about the published labels."""
        raise ReleaseError(
            f"{self.name} does not say what the labels of its releases are, so nothing can be "
            "learnt from them here; use a learner of its own"
        )

    def account(self, question: AccountQuestion) -> Document:  # noqa: ARG002
        """Return what a budget allows, from public numbers alone: the answer of `labeldp account`.

        Answers that depend on the accountant stand in a dict `accountants` by accountant.
        """
        raise InputError(f"{self.name} has no accountant that works without data; use `plan`")

    def least_added_mse(self, request: PlanRequest[Any], design: DesignSummary) -> float:  # noqa: ARG002
        """Return a lower bound of what any plan adds to a prediction's mean squared error.

        `auto` does not plan a mechanism that cannot be better than those before it.
        """
        return 0.0

    def check_source(self, source: Source) -> None:
        """Refuse persons or unnumbered rows where the mechanism cannot do with them.

        Called before `plan`, and by runs, before any data are read.
        """
        self.check_person(source.person)
        if self.names_rows and source.reader.on_cluster:
            raise InputError(
                f"{self.name} names rows by number, and rows on Spark have none; read the table "
                "without Spark, or use `mechanism='shaped-flag'`"
            )

    def check_person(self, person: object) -> None:
        """Refuse persons, in a table or in a claim, where only single rows would be protected."""
        if person is not None and not self.covers_persons:
            raise PlanError(
                f"{self.name} cannot price all rows of a person together; use "
                "`mechanism='shaped-flag'`, 'wtd-flag' or 'noisy-rows', or leave `person` out to "
                "protect single rows"
            )

    def check_pure(self, delta: float) -> None:
        """Refuse δ = 0 where there is no such guarantee."""
        if delta == 0 and not self.allows_pure:
            raise InputError(
                f"{self.name} has no guarantee with δ = 0; give `delta` above 0, "
                "or a mechanism that has one: shaped-flag, noisy-rows"
            )
