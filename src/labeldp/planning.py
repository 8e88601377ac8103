"""`plan` and `Plan`: from a table and a budget to a release.

`plan` reads features and no labels; the `Plan` it returns fixes what will be published and with it
the whole privacy profile. `Plan.release` then debits the ledger, reads the labels once and writes
the release; it can change nothing of what was promised (theory §6).
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labeldp.data.source import TABLE_OPTIONS, Source, applicable, as_source
from labeldp.display import ROWS_LEFT_OUT, ReprMixin, headline, left_out_words, number
from labeldp.errors import (
    InputError,
    LabelDPError,
    PlanError,
    describe_value,
    to_bool,
    to_float,
    to_path,
    to_str,
)
from labeldp.exact.label_sums import LabelGrid
from labeldp.exact.row_norms import Weights
from labeldp.features.feature_map import FeatureMap
from labeldp.features.formula import Formula
from labeldp.io_util import check_target, new_path, read_json
from labeldp.mechanisms.base import ENOUGH_KEPT, Mechanism, MechanismPlan
from labeldp.mechanisms.design_summary import summarize_design
from labeldp.mechanisms.forecast import Forecast
from labeldp.mechanisms.options import (
    AUTO,
    DELTA,
    EPSILON,
    AccountantName,
    Encoding,
    MechanismName,
    make_options,
    names,
    set_options,
)
from labeldp.mechanisms.registry import make_request, mechanism_named, mechanisms, read_claim
from labeldp.passes.engine import Engine
from labeldp.releases.certificate import read_about, seal
from labeldp.releases.files import Release
from labeldp.sampling.streams import Randomness
from labeldp.spark.engine import engine_for

if TYPE_CHECKING:  # the ledger stands above plans
    from labeldp.ledger.ledger import Ledger

PLAN_FORMAT = "labeldp-plan/2"

Choices = dict[str, Any]
"""Keywords of `plan`: budget, accountant, encoding and options of the mechanism."""


@dataclass(frozen=True, repr=False)
class Plan(ReprMixin, MechanismPlan):
    """What will be published and what it promises; every field is public."""

    path: Path | None = field(default=None, compare=False)
    """The file that it was read from, beside which a release is noted."""

    @property
    def facts(self) -> list[tuple[str, str]]:
        """What will be published and what a fit of it is forecast to give, for people."""
        forecast, document = self.forecast, self.claim.to_json()
        leverage, size = document["max_leverage"], number(document["bag_size"])
        labels = "any labels"
        if not forecast.added_exact:
            source = "guessed" if forecast.residual_source == "guess" else "stated"
            labels = f"a residual mean square of {number(forecast.residual_ms)} ({source})"
        ends = " to ".join(
            number(math.sqrt(ms)) for ms in (forecast.added_low, forecast.added_high)
        )
        return [
            *self.headline,
            ("error in 90 % of releases", f"{ends}, for {labels}"),
            ("rows, independent columns", f"{number(document['rows'])}, {document['rank']}"),
            *([] if leverage is None else [("largest leverage", number(leverage))]),
            ("accountant", document["accountant"]["name"]),
            ("aggregates, rows in each", f"{number(document['bags'])}, {size}"),
            *self.mechanism.describe(document),
        ]

    @property
    def expected(self) -> dict[str, Any]:
        """What a certificate will say of the label and the error, as far as it is known."""
        rms, classes = math.sqrt(self.forecast.added_mse), self.table.get("classes")
        labels = {"column": self.table.get("label")} | ({"classes": classes} if classes else {})
        return {"labels": labels, "utility": {"added_rms": rms if math.isfinite(rms) else None}}

    @property
    def headline(self) -> list[tuple[str, str]]:
        """What a release will guarantee, its expected error and what it keeps: three sentences."""
        gain = (
            "if the features explain half of the label's variance, predictions will keep up to "
            f"{max(0.0, self.explained_share_kept):.0%} of that"
        )
        return [*headline(self.claim.to_json() | self.expected), ("gain", gain)]

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        warnings = [("warning", text) for text in self.warnings]
        return f"Plan: {self.claim.mechanism}", [*self.facts, *warnings]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Weak budgets, and little left to predictions: whoever plans must read these."""
        weak = self.claim.weaknesses(self.claim.curve())
        poor = [self.utility_message] if self.explained_share_kept < ENOUGH_KEPT else []
        return (*poor, *weak)

    # ---- release

    def release(
        self,
        source: Any,
        *,
        directory: str | Path | None = None,
        engine: Engine | None = None,
        randomness: Randomness | None = None,
        ledger: Ledger | None = None,
        dataset: str | None = None,
        about: Any = None,
        again: bool = False,
        **table: Any,
    ) -> Release:
        """Read the labels once and draw the release, in memory or into a new directory.

        Parameters
        ----------
        source
            the table that was planned for: what `scan` made, or a path or a frame, which is read
            as the plan's was.
        directory
            None: into memory. Else where to, in bounded memory; it must not exist, and is there
            whole or not at all.
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
            keywords of `scan`, in the place of what was said for `plan`; a file of an earlier
            version does not know its `label`.

        Returns
        -------
        Release
            The release; it has been paid for, so `save` it if it is not in a directory.

        Raises
        ------
        LedgerError
            the table's cap leaves no room for it.
        PlanError
            the features are not those of the plan.
        DataError
            labels are not as said.
        ReleaseError
            the directory exists or cannot be written.

        Examples
        --------
        >>> import labeldp
        >>> table = {"age": list(range(20, 70)) * 20, "income": [30.0, 50.0] * 500}
        >>> plan = labeldp.plan(table, 1, 1e-6, label="income", label_range=(0, 100))
        >>> plan.release(table).bags
        2
        """
        target = None if directory is None else to_path("directory", directory)
        if target is not None:
            check_target(target)
        source = self.scan(source, **table)
        if (ledger is None) != (dataset is None):
            raise InputError(
                "`ledger` and `dataset` go together: the file, and what the table is called in it"
            )
        if ledger is not None and not hasattr(ledger, "debit"):
            said = describe_value(ledger)
            raise InputError(f"`ledger` must be of type Ledger, not {said}; open it: Ledger(path)")
        statements = None if about is None else read_about(about)
        engine = engine or engine_for(source)
        with ExitStack() as stack:
            again = again or ledger is not None
            stack.enter_context(mark_plan_released(self.path, target, again=again))
            debit = None
            if ledger is not None and dataset is not None:
                # Only a run that is sound is paid for. No label was read yet.
                self.check_source(source)
                debit = stack.enter_context(ledger.debit(self, source, engine, dataset))
            # The ledger has been debited: from here on labels may be read.
            keys = randomness or Randomness.from_os()
            pending = self.mechanism.run(self, source, engine, keys)
            now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            fields = {
                "ledger": None if debit is None else debit.to_json(),
                "about": statements,
                "released_at": now if keys.private else None,
            }
            pending = replace(pending, run_fields={**pending.run_fields, **fields})
            if target is None:
                table, certificate = pending.collect()
            else:
                certificate = pending.write(target)
            if debit is not None:
                debit.done(certificate["seal"])
        if target is not None:
            return Release.load(target, verify=False)
        return Release(table, self.features, certificate, pending.files)

    def release_to(self, directory: str | Path, source: Any, **options: Any) -> Release:
        """Draw the release into a new directory: `release` with `directory`.

        Parameters
        ----------
        directory, source, options
            as for `release`.
        """
        return self.release(source, directory=directory, **options)

    def scan(self, data: Any, **table: Any) -> Source:
        """Scan a table with all that the plan knows: its columns and what was said for it.

        Parameters
        ----------
        data
            a path or a frame; a source is returned as it is.
        table
            as for `release`.
        """
        if table.get("label", "") is None:  # not said
            del table["label"]
        if isinstance(data, Source):
            return as_source(data, **table)
        person = self.claim.person
        known: dict[str, Any] = {
            "label_range": (self.labels.low, self.labels.high),
            "person": None if person is None else person.column,
            **self.features.reading,
        }
        return as_source(data, **known | applicable(data, self.table) | table)

    # ---- plan files

    def to_json(self) -> dict[str, Any]:
        """Return the plan as plain values, sealed; an infinite forecast is null."""
        return seal(
            {
                "format": PLAN_FORMAT,
                **self.claim.to_json(),
                "curve": self.claim.curve(),
                "forecast": self.forecast.to_json(),
                "labels": asdict(self.labels),
                "features": self.features.to_json(),
                "feature_sums": self.feature_sums,
                "table": dict(self.table),
                "notes": list(self.notes),
                "warnings": list(self.warnings),
            }
            | ({"anyway": True} if self.force else {})
            | ({"weights": self.weights.to_json()} if self.weights is not None else {})
        )

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Plan:
        """Read a plan back; the inverse of `to_json`. One that was altered since is refused."""
        if not isinstance(document, dict) or document.get("format") != PLAN_FORMAT:
            raise InputError(
                f"this is not a plan of format {PLAN_FORMAT}; make one with labeldp plan"
            )
        if seal(document)["seal"] != document.get("seal"):
            raise InputError("the plan was altered since it was made; make a new one")
        try:
            weights = document.get("weights")
            return cls(
                mechanism_named(document["mechanism"]),
                read_claim(document),
                FeatureMap.from_json(document["features"]),
                LabelGrid(**document["labels"]),
                document["feature_sums"],
                Forecast.from_json(document["forecast"]),
                tuple(document["notes"]),
                weights=None if weights is None else Weights.from_json(weights),
                force=bool(document.get("anyway", False)),
                table=dict(document.get("table", {})),
            )
        except InputError:
            raise
        except (LookupError, TypeError, ValueError, AttributeError):
            raise InputError(
                "the plan lacks a part, or has one of another kind; make a new one"
            ) from None

    def save(self, path: str | Path) -> None:
        """Write the plan as a new JSON file, for `load` and `labeldp release --plan`.

        Parameters
        ----------
        path
            where to; it must not exist.
        """
        content = json.dumps(self.to_json(), indent=1, ensure_ascii=False)
        with new_path(to_path("path", path)) as partial:
            partial.write_text(content + "\n", encoding="utf-8")

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


# ---- a plan file is released once


@contextmanager
def mark_plan_released(plan_file: Path | None, out: Path | None, *, again: bool) -> Iterator[None]:
    """Note beside a plan file that it is released, into `out` or into memory.

    Every release costs its budget again, and without a ledger nothing else would remember it. The
    note is there before labels are read, so that a run that was killed leaves it. A run that is
    refused or stopped has published nothing and takes its note back.
    """
    if plan_file is None:
        yield
        return
    marker = plan_file.with_name(plan_file.name + ".released")
    was_released = marker.exists()
    try:
        marker.touch(exist_ok=again)
    except FileExistsError:
        raise InputError(
            f"{plan_file} was released before ({marker.name} says so), and every release costs "
            "its budget again; keep a `ledger`, or say `again=True`"
        ) from None
    except OSError as problem:
        raise InputError(
            f"{marker} cannot be written ({problem.strerror}), so that a second release would go "
            "unnoticed; keep a `ledger`, or copy the plan"
        ) from None
    try:
        yield
    except (LabelDPError, KeyboardInterrupt, MemoryError):
        if not was_released and (out is None or not out.exists()):
            marker.unlink(missing_ok=True)
        raise


# ---- one mechanism, or the best


def plan_mechanism(name: str, choices: Choices, source: Source, engine: Engine) -> MechanismPlan:
    """Plan with the mechanism of this name, or with "auto" the one that adds least error."""
    if name == AUTO:
        return choose_mechanism(choices, source, engine)
    mechanism = mechanism_named(name)
    request = make_request(mechanism, **choices)
    mechanism.check_source(source)
    design = summarize_design(source, engine=engine, encoding=make_options(Encoding, choices))
    return mechanism.plan(request, design, source, engine)


def choose_mechanism(choices: Choices, source: Source, engine: Engine) -> MechanismPlan:
    """Return the plan that adds least to a prediction, with a note on what it was chosen from.

    An option that only some mechanisms have narrows the choice to those. Mechanisms without a
    closed form are considered only if no other has all options.
    """
    known = mechanisms()
    fitting = [mechanism for mechanism in known if has_options(mechanism, choices)]
    if not fitting:
        for mechanism in known:
            make_request(mechanism, **choices)  # raises, and says which option is wrong
    considered = [mechanism for mechanism in fitting if mechanism.closed_form] or fitting
    design = summarize_design(source, engine=engine, encoding=make_options(Encoding, choices))
    best: MechanismPlan | None = None
    errors: list[str] = []
    problems: list[LabelDPError] = []
    # wtd-flag knows a lower bound of its error and stands behind others, so that it need not be
    # planned where they are better.
    for mechanism in considered:
        try:
            request = make_request(mechanism, **choices)
            mechanism.check_source(source)
            least = mechanism.least_added_mse(request, design)
            if best is not None and least >= best.forecast.selection_score:
                errors.append(f"{mechanism.name} at least {number(math.sqrt(least), 3)}")
                continue
            plan = mechanism.plan(request, design, source, engine)
        except LabelDPError as problem:
            problems.append(problem)
            continue
        score = plan.forecast.selection_score
        errors.append(f"{mechanism.name} {number(math.sqrt(score), 3)}")
        if best is None or score < best.forecast.selection_score:
            best = plan
    if best is None:
        raise problems[0]
    notes = []
    if len(errors) > 1:
        notes.append(
            f"auto chose {best.claim.mechanism}, which adds least error to predictions: "
            f"{', '.join(errors)} (root mean square)"
        )
    if any(each.closed_form and each not in considered for each in known):
        only = ", ".join(each.name for each in considered)
        notes.append(f"auto looked at {only} only: others lack some of the options given")
    return replace(best, notes=(*notes, *best.notes))


def has_options(mechanism: Mechanism, choices: Choices) -> bool:
    """Return whether a mechanism has the accountant, the δ and all options that were given."""
    own = (*names(mechanism.Options), *names(Encoding), "epsilon", "delta", "accountant")
    return (
        choices.get("accountant", "exact") in mechanism.accountants
        and (mechanism.allows_pure or choices.get("delta") != 0)
        and set(set_options(choices)) <= set(own)
    )


# ---- a remedy for a plan that is of no use

_BUDGETS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 8.0, 10.0)
"""ε that are tried; beyond, a guarantee is weak (`release.budget`)."""


def utility_refusal(plan: MechanismPlan, choices: Choices, source: Source, engine: Engine) -> str:
    """Return one line: what is wrong, what would mend it, how to go on without.

    A larger ε is planned, so its forecast is no guess; features are public, so that costs time
    only. It is the least of those tried that keeps enough of what features explain, or the largest.
    """
    design = plan.design
    assert design is not None  # refusals come before a `Plan` is made of it
    remedy = None
    for epsilon in _BUDGETS:
        if epsilon <= choices["epsilon"]:
            continue
        try:
            request = make_request(plan.mechanism, **choices | {"epsilon": epsilon})
            changed = plan.mechanism.plan(request, design, source, engine)
        except LabelDPError:
            continue
        if changed.is_useful:
            added = number(math.sqrt(changed.forecast.added_mse), 3)
            kept = changed.explained_share_kept
            remedy = f"remedies: `epsilon={epsilon:g}` (adds {added}, keeps {kept:.0%})"
            if kept >= ENOUGH_KEPT:
                break
    remedy = remedy or f"no ε up to {_BUDGETS[-1]:g} mends that"
    column = design.leverage.column  # a row has its largest leverage by this one
    return (
        f"{plan.utility_message}; {remedy}; fewer columns (`drop`), of which {column!r} may cost "
        "most; or give `force=True` to go on regardless"
    )


# ---- plan()


def plan(
    source: Any,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    *,
    label: str | None = None,
    label_range: tuple[float, float] | None = None,
    mechanism: MechanismName | str = AUTO,
    accountant: AccountantName | str = "exact",
    force: bool = False,
    engine: Engine | None = None,
    # how columns are encoded
    min_count: int | None = None,
    intercept: bool = True,
    standardise: bool = True,
    indicators: bool = True,
    winsor: float | None = None,
    log: Sequence[str] = (),
    basis: str = "linear",
    interactions: Sequence[str] = (),
    formula: str | None = None,
    # options of mechanisms
    residual_guess: float | None = None,
    bags: int | None = None,
    max_megabytes: float | None = None,
    floor: str | None = None,
    residual_ms: float | None = None,
    residual_share: float | None = None,
    noise: str | None = None,
    shape_ridge: float | None = None,
    with_features: bool = False,
    bag_size: int | None = None,
    over_draw: bool = False,
    bag_seed: int | None = None,
    noise_std: float | None = None,
    noisy_fraction: float | None = None,
    **table: Any,
) -> Plan:
    """Plan a release from features and public facts; labels are not read.

    Parameters
    ----------
    source
        what `scan` made, or a path or a frame, with `label` and `label_range` and any other keyword
        of `scan`.
    epsilon
        the privacy budget ε; smaller is more private.
    delta
        the probability δ that the ε bound fails; 0 gives pure ε-DP.
    label
        the private column, where `source` is a path or a frame.
    label_range
        (low, high), public, likewise.
    mechanism
        by name; "auto" is the one that adds least error to predictions.
    accountant
        "exact" or "exact-worst-case" (features unknown).
    force
        go on where a plan cannot beat the mean of the labels, which is refused otherwise.
    engine
        where data are read; changes speed, never a result.
    min_count
        merge category levels with fewer rows (default: the root of the row count).
    intercept, standardise, indicators
        add a constant column; scale numbers by their public spread; mark missing numbers.
    winsor
        share of numbers at each end moved to its public quantile.
    log
        columns that enter as sign(x)·log(1 + |x|).
    basis
        curves of numbers: "linear", "splines", "splines:KNOTS" or "splines+fourier:N".
    interactions
        pairs of columns ("a:b", or "all") whose products join the design.
    formula
        columns, curves and products at once: "price ~ spline(age) + sex*edu".
    residual_guess
        guess of the residual mean square, for the forecast only; not a promise.
    bags, max_megabytes
        number of aggregates; largest size of the released file.
    floor, residual_ms
        residual floor of wtd-flag and sampled-wtd-flag: "measured+added", "added" or "declared",
        with the residual mean square that you promise.
    residual_share, noise, shape_ridge
        of shaped-flag: share of the budget for the residual; "gaussian", "radial" or "auto"; ridge
        of the fits that the noise is shaped for.
    with_features
        of noisy-rows: publish the raw feature columns beside the labels.
    bag_size, over_draw, bag_seed
        of mechanisms of bags: rows in each bag; guarantee over the draw of the bags; seed of the
        bags for experiments.
    noise_std, noisy_fraction
        of sampled-noisy-wtd-lag: noise on labels; the fraction of rows that carry it.
    table
        other keywords of `scan`, and options of mechanisms from other packages.

    Returns
    -------
    Plan
        A plan, whose `release` or `release_to` reads the labels.

    Raises
    ------
    PlanError
        the budget and the data admit no such release; the message has remedies.
    InputError
        an argument is wrong, or does not apply to the mechanism.
    DataError
        the table is not what was said.

    Examples
    --------
    >>> import labeldp
    >>> table = {"age": list(range(20, 70)) * 20, "income": [30.0, 50.0] * 500}
    >>> plan = labeldp.plan(table, epsilon=1, label="income", label_range=(0, 100))
    >>> plan.claim.mechanism
    'shaped-flag'
    """
    arguments = dict(locals())  # before any other name is set
    del arguments["table"]
    # The options may be those of a mechanism of another package.
    own = {*names(Encoding), *(name for each in mechanisms() for name in names(each.Options))}
    choices = {name: value for name, value in (arguments | table).items() if name in own}
    table = {name: value for name, value in table.items() if name not in own}
    choices["epsilon"] = to_float("epsilon", epsilon)
    choices["delta"] = to_float("delta", delta)
    choices["accountant"] = to_str("accountant", accountant)
    mechanism, force = to_str("mechanism", mechanism), to_bool("force", force)
    if label is not None:
        to_str("label", label)
    if engine is not None and not hasattr(engine, "run_pass"):
        raise InputError(f"`engine` must be of type Engine, not {describe_value(engine)}")
    make_options(Encoding, choices)  # refuses wrong values, before anything is read
    known = [*TABLE_OPTIONS, *choices]
    for name in table.keys() - set(known):
        close = get_close_matches(name, known, n=1)
        remedy = f"did you mean `{close[0]}`?" if close else "leave it out"
        raise InputError(f"plan() has no argument `{name}`; {remedy}")
    if label is None and formula is not None and not isinstance(source, Source):
        label = Formula(formula).label
    source = as_source(source, label=label, label_range=label_range, **table)
    engine = engine or engine_for(source)
    draft = plan_mechanism(mechanism, choices, source, engine)
    if not draft.is_useful and not force:
        raise PlanError(utility_refusal(draft, choices, source, engine))
    # People read the first few notes, so the later a stage is, the earlier its notes stand.
    rows, notes = draft.features.rows, draft.notes
    if draft.claim.delta == 0.0 < choices["delta"]:
        notes = ("the guarantee is pure ε-DP: δ = 0", *notes)
    if (left_out := source.rows_left_out(rows)) is not None:
        notes = (f"{ROWS_LEFT_OUT}: {left_out_words(left_out, rows)}", *notes)
    values = {each.name: getattr(draft, each.name) for each in fields(draft)}
    values |= {"notes": notes, "force": force and not draft.is_useful}
    return Plan(**values | {"table": source.keywords, "design": None})


def forecast_curve(
    source: Source, planned: Plan, engine: Engine | None = None, **choices: Any
) -> list[dict[str, float]]:
    """Return the expected error at the ε of a plan and at smaller and larger ones.

    `choices` are the keywords of `plan`. `error` is the root mean square of what privacy adds to a
    prediction. An ε at which no plan is possible is left out.
    """
    points = []
    choices |= {"mechanism": planned.claim.mechanism, "force": True}
    choices["engine"] = engine or engine_for(source)  # one for all: it keeps what it has read
    for power in range(-3, 4):
        epsilon = planned.claim.epsilon * 2.0**power
        with suppress(PlanError):
            square = plan(source, **choices | {"epsilon": epsilon}).forecast.added_mse
            points.append({"epsilon": epsilon, "error": math.sqrt(square)})
    return [each for each in points if math.isfinite(each["error"])]
