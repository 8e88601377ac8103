"""A plan: mechanism + public facts + budget → what will be published and what it promises.

Here the data road (source → features → statistics) and the privacy road (accounting) meet. A plan
is made from features and no labels: it fixes what will be published and with it the whole privacy
curve. `Plan.release` then reads the labels once and can change nothing of what was promised
(theory §6).
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from labeldp.data.opening import said_again
from labeldp.data.source import Source, as_source
from labeldp.display import ReprMixin, format_budget
from labeldp.errors import InputError, PlanError, to_path
from labeldp.exact.cholesky import VerifiedCholesky
from labeldp.exact.label_sums import LabelGrid
from labeldp.features.feature_map import FeatureMap
from labeldp.io_util import check_target, json_digest, new_path, read_json
from labeldp.mechanisms.forecast import Forecast, explained_ms
from labeldp.mechanisms.plan_file import document_of, fields_of
from labeldp.mechanisms.protocol import number
from labeldp.mechanisms.registry import check_persons, mechanism_named
from labeldp.mechanisms.running import Ledger, check_memory, released, run_fields
from labeldp.passes.engine import Engine
from labeldp.release.claim import Claim, FloorOutcome, certify
from labeldp.release.files import Release
from labeldp.sampling.streams import Randomness

OTHER_FEATURES = "the features are not those of the plan; plan again on this table"
CONTRADICTION = "the plan contradicts itself; plan again"
LEAST_KEPT, ENOUGH_KEPT = 0.1, 0.5
"""Of what features explain: below the first a plan is refused, below the second it is warned of."""


class Part(Protocol):
    """Something public that a plan holds for its mechanism."""

    def to_json(self) -> Any: ...


@dataclass(frozen=True, repr=False)
class Plan(ReprMixin):
    """What will be published and what it promises; every field is public."""

    claim: Claim
    features: FeatureMap
    labels: LabelGrid
    feature_sums: str
    """SHA-256 of the exact feature sums (of the bags' rows, if rows are drawn): the release must
    see the same features."""
    forecast: Forecast
    notes: tuple[str, ...] = ()
    factor: VerifiedCholesky | None = field(default=None, compare=False)
    """Of those feature sums, where planning has just made it; it is not written to plan files."""
    parts: Mapping[str, Part] = field(default_factory=dict, compare=False)
    """What only this mechanism's plans hold, by the names that it declares."""
    anyway: bool = False
    """Whether it was asked for although it cannot beat the constant predictor (`worth.py`)."""
    bases: tuple[dict[str, Any], ...] = field(default=(), compare=False)
    """What was tried, and what each would cost, where the basis was chosen (`curves.py`)."""
    path: Path | None = field(default=None, compare=False)
    """The file that it was read from, beside which a release is noted (`plan_register.py`)."""
    table: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """What was said about the labels and the text of its table (`Source.said`): a release reads
    them in the same way."""

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        claim, (low, high) = self.claim, self.labels.range
        about = claim.to_json()
        return (
            f"Plan: {claim.mechanism}, {format_budget(claim.epsilon, claim.delta)}",
            (
                ("rows", f"{self.features.rows:,}"),
                ("design columns", f"{len(self.features.names):,}"),
                ("label range", f"{low:g} to {high:g}"),
                ("aggregates", f"{claim.bags:,} of {about['bag_size']:,} rows each"),
                ("kept of what features explain", f"up to {max(0.0, self.kept):.0%}"),
                *(("warning", text) for text in self.warnings),
            ),
        )

    @property
    def explained_ms(self) -> float:
        """What features are taken to explain: half of labels spread evenly over their range."""
        low, high = self.labels.range
        stated = self.forecast.residual_source == "stated"
        return explained_ms(high - low, self.forecast.residual_ms if stated else 0.0)

    @property
    def kept(self) -> float:
        """The share of that which is left to predictions; below 0 the constant one is better."""
        explained = self.explained_ms
        return 1 - self.forecast.fitted_ms / explained if explained else -math.inf

    @property
    def worthwhile(self) -> bool:
        """Whether predictions may beat the constant one, by the forecast."""
        return self.kept >= LEAST_KEPT

    @property
    def verdict(self) -> str:
        """What privacy does to predictions, in words."""
        low, high = self.labels.range
        error, kept = math.sqrt(self.forecast.added_ms), max(0.0, self.kept)
        size = (
            f"adds {number(error, 3)} to a prediction (root mean square, "
            f"{error / (high - low):.2g} of the label range)"
            if math.isfinite(error)
            else "adds errors without bound"
        )
        return (
            f"privacy {size} and leaves at most {kept:.0%} of what features may explain: a fit "
            f"{'may not be' if kept else 'is not'} better than the mean of the labels"
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever plans must read: weak budgets, and little left to predictions."""
        weak = self.claim.weaknesses(self.claim.curve())
        poor = [self.verdict] if self.kept < ENOUGH_KEPT else []
        return (*poor, *weak)

    def release(
        self,
        source: Any,
        *,
        label: str | None = None,
        engine: Engine | None = None,
        randomness: Randomness | None = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        about: Any = None,
        again: bool = False,
        **table: Any,
    ) -> Release:
        """Read the labels once and draw the release, in memory.

        Parameters
        ----------
        source
            the table that was planned for: what `scan` made, or a path or a frame, which is read
            as the plan's was.
        label
            the private column, where the plan does not know it: a file of an earlier version.
        engine
            where data are read; changes speed, never a result.
        randomness
            for tests and experiments only, and then the release is not private.
        ledger, dataset
            a `Ledger` that is debited first, and what the table is called in it.
        about
            what only the curator knows, for the certificate: a TOML file or a mapping with
            name, curator, contact, purpose, region, licence, date, why_label_range, why_epsilon.
        again
            release a plan from a file (`load`) once more without a ledger: it costs again.
        table
            keywords of `scan`, in the place of what was said for `plan`.

        Returns
        -------
        Release
            The release; it has been paid for, so `save` it.

        Raises
        ------
        LedgerError
            the table's cap leaves no room for it.
        PlanError
            the features are not those of the plan.
        DataError
            labels are not as said.

        Warns
        -----
        LabelDPWarning
            the numbers drawn do not show that predictions beat the mean of the labels; the budget
            is spent, but think before you publish.

        Examples
        --------
        >>> import labeldp
        >>> table = {"age": list(range(20, 70)) * 20, "income": [30.0, 50.0] * 500}
        >>> made = labeldp.plan(table, 1, 1e-6, label="income", label_range=(0, 100))
        >>> made.release(table).bags
        2
        """
        source = self.scan(source, label=label, **table)
        check_memory(*self.claim.extent(len(self.features.names), len(self.features.columns)))
        return released(self, source, None, engine, randomness, ledger, dataset, about, again)

    def release_to(
        self,
        directory: str | Path,
        source: Any,
        *,
        label: str | None = None,
        engine: Engine | None = None,
        randomness: Randomness | None = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        about: Any = None,
        again: bool = False,
        **table: Any,
    ) -> Release:
        """Read the labels once and draw the release into a new directory, in bounded memory.

        Parameters
        ----------
        directory
            where to; it must not exist, and is there whole or not at all.
        source, label, engine, randomness, ledger, dataset, about, again, table
            as for `release`.

        Returns
        -------
        Release
            The release, read from the directory as far as it is looked at.

        Raises
        ------
        ReleaseError
            the directory exists or cannot be written; others as `release`.

        Examples
        --------
        >>> import labeldp, tempfile
        >>> table = {"age": list(range(20, 70)) * 20, "income": [30.0, 50.0] * 500}
        >>> made = labeldp.plan(table, 1, 1e-6, label="income", label_range=(0, 100))
        >>> with tempfile.TemporaryDirectory() as place:
        ...     made.release_to(f"{place}/published", table).bags
        2
        """
        check_target(target := to_path("directory", directory))
        source = self.scan(source, label=label, **table)
        return released(self, source, target, engine, randomness, ledger, dataset, about, again)

    def scan(self, data: Any, *, label: str | None = None, **table: Any) -> Source:
        """`labeldp.scan`, with all that the plan knows: its columns and what was said for it.

        Parameters
        ----------
        data
            a path or a frame; a source is what it is.
        label, table
            as for `release`.
        """
        said = table if label is None else table | {"label": label}
        if isinstance(data, Source):
            return as_source(data, **said)
        person = self.claim.person
        known: dict[str, Any] = {
            "label_range": (self.labels.low, self.labels.high),
            "person": None if person is None else person.column,
            **self.features.reading,
        }
        return as_source(data, **known | said_again(data, self.table) | said)

    def to_json(self) -> dict[str, Any]:
        """The plan as plain values, sealed; an infinite forecast is null."""
        return document_of(self)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Plan:
        """Read a plan back; the inverse of `to_json`. One that was altered since is refused."""
        return cls(**fields_of(document))

    def save(self, path: str | Path) -> None:
        """Write the plan as a new JSON file, for `load` and `labeldp release --plan`.

        Parameters
        ----------
        path
            where to; it must not exist.
        """
        text = json.dumps(self.to_json(), indent=1, ensure_ascii=False)
        with new_path(to_path("path", path)) as partial:
            partial.write_text(text + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Plan:
        """Read a plan file. It is released once, unless a ledger is kept or `again=True`.

        Parameters
        ----------
        path
            what `save` or `labeldp plan --out` wrote.
        """
        path = to_path("path", path)
        document = read_json(path)
        try:
            return replace(cls.from_json(document), path=path)
        except InputError as problem:
            raise InputError(f"{path}: {problem}") from None

    def bind(self, source: Source, *sound: bool) -> None:
        """What must hold before a label is read: the plan is sound and is for these labels.

        `sound` is what must hold between the fields of the mechanism's own claim.
        """
        labels, claim, features = self.labels, self.claim, self.features
        if self.table.get("label", source.label) != source.label:
            raise PlanError(
                f"the plan is for the labels {self.table['label']!r}; name these, or plan again"
            )
        if source.label_range != (labels.low, labels.high):
            raise PlanError(
                f"the plan is for labels from {labels.low:g} to {labels.high:g}; "
                "scan the table with that label range"
            )
        person = None if claim.person is None else claim.person.column
        if source.person != person:
            raise PlanError(
                f"the plan is for {_whose(person)}; scan the table with that, or plan again"
            )
        check_persons(mechanism_named(claim.mechanism), person)
        grid = LabelGrid.for_range((labels.low, labels.high), intercept=features.intercept)
        said = claim.to_json()
        agrees = (
            labels == grid
            and said["label_range"] == list(labels.range)
            and said["rows"] == features.rows
            and all(sound)
        )
        if not agrees or not claim.delta_at(claim.epsilon) <= claim.delta:
            raise PlanError(CONTRADICTION)

    def check_sums(self, digest: str) -> None:
        """That the features of a run are those of the plan."""
        if digest != self.feature_sums:
            raise PlanError(OTHER_FEATURES)

    def certifier(
        self,
        outcome: FloorOutcome | None,
        source: Source,
        grid: int,
        randomness: Randomness,
    ) -> Callable[[dict[str, str]], dict[str, Any]]:
        """What makes the certificate of a run once the digests of its tables are known."""

        def certificate(digests: dict[str, str]) -> dict[str, Any]:
            return certify(
                self.claim,
                outcome,
                **run_fields(
                    self.claim.drawn, self.features.rows, source, self.labels, grid, randomness
                ),
                anyway=self.anyway,
                digests={
                    "bags": None,
                    "features": json_digest(self.features.to_json()),
                    "feature_sums": self.feature_sums,
                    **digests,
                },
            )

        return certificate


def _whose(person: str | None) -> str:
    return "single rows (no `person`)" if person is None else f"persons (`person={person!r}`)"
