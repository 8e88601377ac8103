"""What may be asked of a plan or of `labeldp account`: groups of options, each written once.

A field's metadata carry its help text for the command line and for `help(labeldp.plan)`, and the
check that its value must pass; the keys are those of `cli/derived.py`, and `check`. A mechanism
takes the groups that it has and adds fields of its own. Nothing here is slow to import.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Generic, TypeVar

from labeldp.common.arguments import plain_fields
from labeldp.errors import InputError, at_least, end_share, in_range, ordered, positive, share


def option(
    default: Any, words: str, *, check: Callable[..., None] | None = None, **told: Any
) -> Any:
    """A field that is an option; None leaves the choice to the mechanism."""
    return field(default=default, metadata={"help": words, "check": check, **told})


def required(words: str, **told: Any) -> Any:
    """A field that is an option and must be given."""
    return field(metadata={"help": words, **told})


def column_names(texts: Iterable[str]) -> tuple[str, ...]:
    """Comma-separated lists of columns; a name that has a comma stands in double quotes."""
    rows = (next(csv.reader([text], skipinitialspace=True), []) for text in texts)
    return tuple(part.strip() for row in rows for part in row if part.strip())


def _end_shares(winsor: float | Mapping[str, float]) -> None:
    for each in winsor.values() if isinstance(winsor, Mapping) else [winsor]:
        end_share(winsor=each)


def _parse_shares(texts: Iterable[str]) -> dict[str, float]:
    """Comma-separated lists of shares: 0.001, or income=0.005 for one column."""
    found = {}
    for part in column_names(texts):
        name, _, text = part.rpartition("=")
        try:
            found[name or "*"] = float(text)
        except ValueError:
            raise InputError(
                f"`winsor` holds {part!r}; write a share, 0.001, or that of a column, income=0.005"
            ) from None
    return found


def _basis(basis: str) -> None:
    if basis not in ("linear", "auto"):
        from labeldp.features.basis import BasisSpec

        BasisSpec.of(basis, (), 1)


def _formula(formula: str) -> None:
    from labeldp.features.formula import formula_label

    formula_label(formula)


SAID_BY_FORMULA = ("intercept", "log", "basis", "interactions")


def beside_formula(asked: Mapping[str, Any]) -> None:
    """Refuse what a formula says as well."""
    usual = {each.name: each.default for each in fields(Encoding)}
    for name in SAID_BY_FORMULA if asked.get("formula") is not None else ():
        if asked.get(name, usual[name]) not in (usual[name], None):
            raise InputError(f"`{name}` is settled by `formula`; leave one of them out")


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How raw columns become design columns; `fit_features` says what each choice does."""

    min_count: int | None = option(
        None, "Merge levels seen less often; default: the root of the rows."
    )
    intercept: bool = option(True, "Do not add a constant column.", flag="--no-intercept")
    standardise: bool = option(True, "Scale numbers by their public spread.", flag=None)
    indicators: bool = option(True, "Mark missing numbers in a column of their own.", flag=None)
    winsor: float | Mapping[str, float] | None = option(
        None,
        "Share of numbers at each end moved to its public quantile; default: 0.001 of outliers.",
        metavar="Q,A=Q",
        check=_end_shares,
        parse=_parse_shares,
    )
    log: Sequence[str] = option(
        (), "Columns that enter as sign(x)·log(1 + |x|).", metavar="A,B", parse=column_names
    )
    basis: str = option(
        "linear",
        "Curves of numbers: linear, splines, splines:KNOTS, splines+fourier:N or auto.",
        check=_basis,
    )
    interactions: Sequence[str] = option(
        (),
        "Pairs of columns whose products join the design, or all.",
        metavar="A:B,C:D",
        parse=column_names,
    )
    interaction_columns: int = option(
        300, "At most so many columns of products.", check=partial(at_least, 1)
    )
    formula: str | None = option(
        None,
        "Columns, curves and products at once: 'price ~ spline(age) + sex*edu'.",
        metavar="'Y ~ A + B'",
        check=_formula,
    )
    max_leverage: float | None = option(
        None,
        "Leave out design columns that give a row more leverage (0 to 1: its pull on the fit).",
        check=partial(in_range, 0, 1),
    )
    strict: bool = option(
        False, "Refuse constant or dependent columns; default: leave them out.", flag="--strict"
    )

    def __post_init__(self) -> None:
        check_options(self)
        beside_formula(vars(self))


@dataclass(frozen=True, kw_only=True)
class GuessOptions:
    """For forecasts."""

    residual_guess: float | None = option(
        None,
        "Guess of the residual mean square, for the forecast; not a promise.",
        check=positive,
    )

    def residual(self, width: float) -> float:
        """The residual mean square to plan with: the guess, or a tenth of the range, squared."""
        return self.residual_guess or (width / 10) ** 2

    @property
    def residual_source(self) -> str:
        """Whose it is: "stated", or our "guess"."""
        return "guess" if self.residual_guess is None else "stated"


_MEGABYTES = 4.0, 128.0
_NUMBER = 8
"""Bytes of a published number."""


@dataclass(frozen=True, kw_only=True)
class Options(GuessOptions):
    """What every mechanism that draws its weights has."""

    bags: int | None = option(
        None,
        "How many aggregates; default: where more stop paying.",
        check=partial(at_least, 1),
    )
    max_megabytes: float | None = option(
        None,
        "Cap on the size of the released file; default: about that of the table.",
        check=positive,
    )

    def megabytes(self, values: int | None = None) -> float:
        """The cap; by default a byte for each of the table's values, between two limits."""
        least, most = _MEGABYTES
        usual = most if values is None else min(most, max(least, values / 1e6))
        return self.max_megabytes or usual


def fitting(megabytes: float, size: int) -> int:
    """How many entries of so many bytes each a file of this size can hold."""
    return int(megabytes * 1e6 / size)


def fitting_aggregates(megabytes: float, columns: int) -> int:
    """The same of aggregates of so many columns and a label."""
    return fitting(megabytes, _NUMBER * (columns + 1))


@dataclass(frozen=True, kw_only=True)
class FloorOptions:
    """For mechanisms that rest on a residual floor."""

    floor: str | None = option(
        None, "Residual floor: measured+added (default), measured, added or declared."
    )
    residual_ms: float | None = option(
        None, "With `floor='declared'`: the residual mean square you promise.", check=positive
    )


@dataclass(frozen=True, kw_only=True)
class DrawOptions:
    """For mechanisms that draw bags of rows."""

    bag_size: int | None = option(
        None,
        "Rows in each bag, where bags are drawn; default: the best.",
        check=partial(at_least, 1),
    )
    over_draw: bool = option(
        False, "Guarantee over the draw of the bags, not given the bags.", flag="--over-draw"
    )
    bag_seed: int | None = option(None, "For experiments: repeatable bags.", min=0)


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse what is no budget, and what is so far out that it would say nothing."""
    from labeldp.accounting.limits import LEAST_DELTA, MOST_EPSILON  # slow to import

    positive(epsilon=epsilon)
    share(delta=delta)
    if epsilon > MOST_EPSILON:
        raise InputError(f"`epsilon` must be at most {MOST_EPSILON:g}, not {epsilon:g}")
    if 0 < delta < LEAST_DELTA:
        raise InputError(f"`delta` must be at least {LEAST_DELTA:g}, not {delta:g}, or 0: pure ε")


Own = TypeVar("Own")
Made = TypeVar("Made")


@dataclass(frozen=True)
class Request(Generic[Own]):
    """What is asked of a plan, whatever the mechanism, and the mechanism's own options."""

    epsilon: float
    delta: float
    accountant: str
    encoding: Encoding
    options: Own
    """What the mechanism declares as its options."""
    known: dict[Any, Any] = field(default_factory=dict, repr=False, compare=False)
    """What has been found out about the table: the requests of one comparison share it."""

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        check_options(self.options)


def _range(label_range: tuple[float, float]) -> None:
    ordered(*label_range, name="label_range")


@dataclass(frozen=True, kw_only=True)
class Question:
    """What `labeldp account` is asked about every mechanism: public quantities alone."""

    rows: int = required("Rows in the table.", check=positive)
    label_range: tuple[float, float] = required(
        "Public range of the labels.", metavar="LO HI", check=_range
    )
    epsilon: float = option(1.0, "Privacy budget ε.", check=positive)
    delta: float = option(1e-6, "Privacy budget δ; 0: pure ε.", check=share)
    centred: bool = option(True, "The features do not span the constant.", flag="--no-intercept")

    @property
    def budget(self) -> tuple[float, float]:
        return self.epsilon, self.delta


@dataclass(frozen=True, kw_only=True)
class ResidualQuestion(Question):
    """For mechanisms that rest on a residual floor."""

    residual_ms: float | None = option(
        None,
        "Residual mean square γ: the residual sum of squares is ≥ γ·rows.",
        check=positive,
    )


@dataclass(frozen=True, kw_only=True)
class CountQuestion(Question):
    """How many aggregates."""

    bags: int | None = option(
        None, "A number of bags: report its ε and δ instead of the most.", check=positive
    )


@dataclass(frozen=True, kw_only=True)
class BagsQuestion(CountQuestion):
    """For mechanisms that draw bags of rows."""

    bag_size: int | None = option(
        None, "Rows in a bag: report its ε and δ, not the smallest.", check=positive
    )


@dataclass(frozen=True, kw_only=True)
class FeaturesQuestion(Question):
    """What may be known of the features."""

    max_leverage: float | None = option(
        None, "Largest leverage of the features, for exact.", check=positive
    )
    features: int | None = option(
        None, "Independent feature columns, for exact and paper.", check=positive
    )


def check_options(options: Any) -> None:
    """Every value that was given passes the check of its field."""
    for each in fields(options):
        check, value = each.metadata.get("check"), getattr(options, each.name)
        if check is not None and value is not None:
            check(**{each.name: value})


def make_options(kind: type[Made], choices: Mapping[str, Any]) -> Made:
    """A group of options from keywords, each in plain values; None leaves a choice to us."""
    said = {name: value for name, value in choices.items() if value is not None}
    return kind(**plain_fields(kind, said))


def names(kind: Any) -> tuple[str, ...]:
    """The options of a group."""
    return tuple(each.name for each in fields(kind))


def given(choices: dict[str, Any]) -> dict[str, Any]:
    """Those choices that say something; 0 does."""
    return {n: value for n, value in choices.items() if value is not None and value is not False}


def refuse_foreign(choices: dict[str, Any], own: Iterable[str], whose: str) -> None:
    """Refuse choices that a mechanism does not have, rather than let them count for nothing."""
    for name in given(choices):
        if name not in own:
            raise InputError(f"`{name}` does not apply to {whose}; leave it out")
