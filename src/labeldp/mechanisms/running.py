"""The run of a plan: it fits memory, is paid for, reads labels once and is told of in full."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from labeldp.data.source import Source
from labeldp.errors import InputError, LabelDPWarning, PlanError
from labeldp.exact.label_sums import LabelGrid
from labeldp.mechanisms.plan_register import mark_plan_released
from labeldp.mechanisms.registry import mechanism_named
from labeldp.passes.engine import Engine, engine_for
from labeldp.release.about import read_about
from labeldp.release.certificate import Certificate
from labeldp.release.claim import drawn_fields
from labeldp.release.files import Release
from labeldp.sampling.streams import Randomness

if TYPE_CHECKING:
    from labeldp.mechanisms.plans import Plan

MOST_NUMBERS = 500_000_000
"""A release drawn in memory: four gigabytes of it."""
_LEARNERS = "labeldp.learners.linear"
"""What a release says of its own use; learners stand further down the road."""


class Debit(Protocol):
    """What a release was paid with; a `with` block around the run, which says how it ended."""

    def to_json(self) -> dict[str, Any] | None:
        """Return what the certificate says of it."""

    def done(self, seal: str) -> None:
        """The release is there."""

    def __enter__(self) -> Debit: ...

    def __exit__(self, *problem: Any) -> None: ...


class Ledger(Protocol):
    """A ledger (`ledger/ledger.py`)."""

    def debit(self, plan: Plan, source: Source, engine: Engine, dataset: str) -> Debit:
        """Pay for a release before its labels are read, or refuse."""


class NoLedger:
    """No ledger is kept."""

    def to_json(self) -> None:
        """Return what the certificate says: nothing."""

    def done(self, seal: str) -> None:
        """Nobody is told."""

    def __enter__(self) -> NoLedger:
        return self

    def __exit__(self, *problem: Any) -> None:
        return


def check_memory(rows: int, columns: int) -> None:
    """Refuse to draw in memory what does not fit an ordinary machine's."""
    if rows * columns > MOST_NUMBERS:
        raise PlanError(
            f"{rows:,} rows of {columns} columns are too many to hold in memory; write them "
            "to a directory as they are drawn (plan.release_to, labeldp release)"
        )


def released(
    plan: Plan,
    source: Source,
    target: Path | None,
    engine: Engine | None,
    randomness: Randomness | None,
    ledger: Ledger | None,
    dataset: str | None,
    about: Any,
    again: bool,
) -> Release:
    """Draw the release of a plan, in memory or into a new directory; see `Plan.release`.

    A warning is given where the numbers drawn do not show that they are of use. Whoever gives
    randomness, for experiments or to tell people in another way, looks for themselves.
    """
    said, engine = read_about(about), engine or engine_for(source)
    with (
        mark_plan_released(plan, target, again=again or ledger is not None),
        paid(plan, source, engine, ledger, dataset) as debit,
    ):
        keys = randomness or Randomness.from_os()
        drawing = mechanism_named(plan.claim.mechanism).run(plan, source, engine, keys)
        drawing = drawing.telling(
            ledger=debit.to_json(),
            about=None if said is None else said.to_json(),
            released_at=now() if keys.private else None,
        )
        if target is None:
            table, certificate = drawing.collect()
        else:
            certificate = drawing.write(target)
        debit.done(certificate["seal"])
    if target is None:
        made = Release(table, drawing.features, Certificate(certificate), drawing.files)
    else:
        made = Release.load(target, verify=False)
    if randomness is None and not plan.anyway:
        quality = import_module(_LEARNERS).release_quality(made, source)
        warning = None if quality is None else quality.usefulness_warning
        if warning is not None:
            warnings.warn(warning, LabelDPWarning, stacklevel=4)
    return made


def paid(
    plan: Plan, source: Source, engine: Engine, ledger: Ledger | None, dataset: str | None
) -> Debit:
    """The debit of a run that is sound, before a label is read."""
    if (ledger is None) != (dataset is None):
        raise InputError(
            "`ledger` and `dataset` go together: the file, and what the table is called in it"
        )
    if ledger is None or dataset is None:
        return NoLedger()
    plan.bind(source)
    return ledger.debit(plan, source, engine, dataset)


def now() -> str:
    """To the second, for the certificate."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def run_fields(
    drawn: str, rows: int, source: Source, labels: LabelGrid, grid: int, randomness: Randomness
) -> dict[str, Any]:
    """How numbers were rounded, drawn and read: all of it public, fixed before labels are read."""
    left_out = source.rows_left_out(rows)
    return {
        "numerics": {
            "aggregate_labels": drawn,
            "grid_exponent": grid,
            "label_exponent": labels.exponent,
            "feature_sums": "exact integers",
            "residual": "rigorous enclosure",
        },
        "randomness": drawn_fields(randomness.private),
        "labels": {
            "column": source.label,
            "outside_range": "clipped" if source.clip else "refused",
            "missing": "rows dropped" if source.drop_missing_labels else "refused",
            **({} if left_out is None else {"rows_left_out": left_out}),
            **({"na": words} if (words := _dropped_words(source)) else {}),
        },
        "ledger": None,
        "about": None,
        "released_at": None,
    }


def _dropped_words(source: Source) -> list[str]:
    """What was said to mean missing of labels, to whoever drops the same rows again."""
    if not source.drop_missing_labels or source.label is None:
        return []
    codes = source.reading.codes.get(source.label, ())
    words = filter(None, source.reading.everywhere or ())
    return [*words, *(f"{source.label}={code}" for code in codes)]
