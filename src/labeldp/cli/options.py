"""Options that several commands share, and what they make."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.cli.derived import argument, told
from labeldp.cli.output import note, progress
from labeldp.errors import InputError
from labeldp.mechanisms.options import column_names, option, required
from labeldp.mechanisms.registry import DELTA, EPSILON

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.features.feature_map import FeatureMap
    from labeldp.mechanisms.plans import Plan
    from labeldp.passes.engine import Engine

_DATA = "A Parquet, CSV(.gz), TSV, Arrow, Excel, Stata, SPSS or SAS file, a glob, a directory."
Data = Annotated[str, argument(_DATA)]
Json = Annotated[bool, told("Print one JSON document.")]
Verbose = Annotated[bool, told("Show every note, not only five.")]
ReleaseDirectory = Annotated[Path, argument("A release directory.")]


@dataclass(frozen=True, kw_only=True)
class Budget:
    """What a release may cost."""

    epsilon: float = option(
        EPSILON, "Privacy budget ε: a label changes any odds by a factor of e^ε at most,"
    )
    delta: float = option(DELTA, "but for a chance δ; 0: pure ε.")


def _several(help: str, default: tuple[str, ...] | None = ()) -> Any:
    """Names with commas between them; the option may be repeated."""
    return option(default, help, metavar="A,B", parse=column_names)


@dataclass(frozen=True, kw_only=True)
class ColumnOptions:
    """What columns are."""

    categorical: tuple[str, ...] = _several("Columns that are codes, not numbers.")
    numeric: tuple[str, ...] = _several("Columns that are numbers, not codes.")
    drop: tuple[str, ...] = _several("Columns to leave out.")

    def column_keywords(self) -> dict[str, Any]:
        """For `scan`."""
        return {each.name: getattr(self, each.name) for each in fields(ColumnOptions)}


@dataclass(frozen=True, kw_only=True)
class SpellingOptions:
    """How the text of a table is spelt."""

    delimiter: str | None = option(
        None, "Sign between fields; default: by the header.", metavar="SIGN"
    )
    encoding: str | None = option(
        None, "Of a text file; default: UTF-8, else cp1252 (Latin-1).", metavar="NAME"
    )
    skip_lines: int | None = option(
        None, "Lines above the header; default: titles and remarks.", metavar="N"
    )
    skip_footer: int | None = option(
        None, "Lines below the last row; default: totals and remarks.", metavar="N"
    )
    decimal: str | None = option(
        None, "Decimal sign, . or ,; default: by the columns.", metavar="SIGN"
    )
    thousands: str | None = option(
        None, "Sign between groups of digits; default: by the columns.", metavar="SIGN"
    )
    na: tuple[str, ...] | None = _several(
        "Texts that mean missing, besides NA, null and the like; of one column: age=999, or "
        "age=* for all that is no number; '': empty cells only.",
        None,
    )
    date_format: str | None = option(
        None, "Format of dates, such as %d.%m.%Y; default: by the columns.", metavar="FORMAT"
    )

    def spelling_keywords(self) -> dict[str, Any]:
        """For `scan`."""
        said = {each.name: getattr(self, each.name) for each in fields(SpellingOptions)}
        return said | {"delimiter": _sign(self.delimiter)}


@dataclass(frozen=True, kw_only=True)
class TextOptions(SpellingOptions):
    """How the text of a table is spelt, and what is made of dates."""

    date_parts: tuple[str, ...] = _several(
        "Dates whose year, month and weekday become columns too."
    )
    text_parts: tuple[str, ...] = _several(
        "Numbers and words within texts as columns in their place: BP:number1,BP:number2."
    )

    def text_keywords(self) -> dict[str, Any]:
        """For `scan`."""
        return self.spelling_keywords() | {
            "date_parts": self.date_parts,
            "text_parts": self.text_parts,
        }


@dataclass(frozen=True, kw_only=True)
class _Labelled:
    """A table with private labels."""

    data: str = required(_DATA, argument=True)
    label: str | None = option(
        None,
        "The private label column; default: that of --formula.",
        metavar="COLUMN",
        needed=lambda there: there.isdisjoint(("formula", "plan")),
    )
    label_range: tuple[float, float] | None = option(
        None,
        "Public range of the labels: needed, but a plan file knows it.",
        metavar="LO HI",
        needed=lambda there: "plan" not in there,
    )
    person: str | None = option(
        None, "Column of ids: protect all rows of a person together.", metavar="COLUMN"
    )
    features: tuple[str, ...] = _several("Feature columns; default: all but the label.")
    clip: bool = option(False, "Clip labels to the range.")
    drop_missing_labels: bool = option(
        False, "Leave out rows without a label (who lacks one becomes visible)."
    )


@dataclass(frozen=True, kw_only=True)
class Table(TextOptions, ColumnOptions, _Labelled):
    """All that is said about a table."""

    def source(self, engine: str, formula: str | None = None) -> Source:
        """The source that these options describe; what was found out is said."""
        from labeldp.data.source import scan
        from labeldp.features.formula import formula_label

        label = self.label or (None if formula is None else formula_label(formula))
        if label is None:
            raise InputError("Missing --label COLUMN; the formula does not name it")
        said = self._said | {"label": label}
        return _told(scan(self._opened(engine, said), **said))

    def planned(self, plan: Plan, engine: str, given: Container[str]) -> Source:
        """The table of a plan, read as it was for the plan but for what is `given` here."""
        said = {name: value for name, value in self._said.items() if name in given}
        return _told(plan.scan(self._opened(engine, said, plan.table), **said))

    @property
    def _said(self) -> dict[str, Any]:
        return {
            "label": self.label,
            "label_range": self.label_range,
            "person": self.person,
            "features": self.features or None,
            "clip": self.clip,
            "drop_missing_labels": self.drop_missing_labels,
            **self.column_keywords(),
            **self.text_keywords(),
        }

    def _opened(
        self, engine: str, said: dict[str, Any], before: Mapping[str, Any] = MappingProxyType({})
    ) -> Any:
        """The data; what Spark is told of their bytes is said no more."""
        if engine != "spark":
            return self.data
        names = ("delimiter", "encoding")
        return opened(self.data, engine, *(said.pop(n, None) or before.get(n) for n in names))


def _told(found: Source) -> Source:
    for said in found.notes:
        note(said)
    return found


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Where data are read: no choice here changes a result."""

    threads: int = option(0, "Threads; 0: one for each core.", min=0)
    engine: str = option("local", "Where data are read: local or spark.")

    def make(self) -> Engine:
        """The engine that the options name."""
        from labeldp.passes.engine import LocalEngine

        if self.engine == "local":
            return LocalEngine(self.threads, progress)
        if self.engine != "spark":
            raise InputError(f"engine {self.engine!r} is unknown; choose local or spark")
        if self.threads:
            raise InputError("--threads is for --engine local; Spark has settings of its own")
        from labeldp.spark.engine import SparkEngine

        return SparkEngine(progress)


@dataclass(frozen=True, kw_only=True)
class LedgerOptions:
    """Where a release is paid for."""

    ledger: Path | None = option(
        None,
        "Debit the release in this ledger first; default: LABELDP_LEDGER.",
        metavar="FILE",
        envvar="LABELDP_LEDGER",
        needed=lambda there: "dataset" in there,
    )
    dataset: str | None = option(
        None,
        "What the table is called in the ledger.",
        metavar="NAME",
        needed=lambda there: "ledger" in there,
    )

    def payment(self) -> dict[str, Any]:
        """For `Plan.release_to`; nothing without a ledger."""
        if self.ledger is None:
            return {}
        from labeldp.ledger.ledger import Ledger

        return {"ledger": Ledger(self.ledger), "dataset": self.dataset}


def opened(
    data: str, engine: str, delimiter: str | None = None, encoding: str | None = None
) -> Any:
    """What `scan` reads under a name: a path, or what Spark finds there."""
    if engine != "spark":
        return data
    from labeldp.spark.session import read

    return read(data, delimiter, encoding)


def _sign(delimiter: str | None) -> str | None:
    r"""A tab can hardly be typed: `tab` and `\t` stand for it."""
    return "\t" if delimiter in ("tab", "\\t") else delimiter


def names(text: str | None) -> tuple[str, ...]:
    """A comma-separated list of columns."""
    return column_names([text]) if text else ()


def raw_rows(
    data: str,
    features: FeatureMap,
    label: str | None = None,
    kept: tuple[str, ...] = (),
    **spelling: Any,
) -> Source:
    """Rows to predict or score: only the columns the map needs are read, and those to keep.

    The label may be among the others, and messages about features quote their values.
    """
    from labeldp.data.roles import UnknownColumnError
    from labeldp.data.source import scan

    beside = tuple(name for name in kept if name not in features.columns)
    said = {name: value for name, value in spelling.items() if value is not None}
    known = features.reading
    try:
        return scan(
            data,
            label=label,
            label_range=None if label is None else (-1e150, 1e150),
            drop_missing_labels=label is not None,
            **known
            | {name: (*known[name], *beside) for name in ("features", "categorical")}
            | said,
        )
    except UnknownColumnError as problem:
        if problem.column in beside:
            raise problem.standing_in("--keep") from None
        raise
