"""Options of `plan`, of the mechanisms and of `labeldp account`: frozen dataclasses.

A field's metadata hold its help text, the conversion of its value (NumPy numbers become Python
numbers) and the check that the value must pass. The command line imports this module to show its
help, so nothing here may import NumPy, PyArrow or other modules that are slow to load.
"""

from __future__ import annotations

import csv
import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from labeldp.errors import (
    InputError,
    at_least,
    describe,
    end_share,
    in_range,
    ordered,
    positive,
    share,
    to_bool,
    to_float,
    to_int,
    to_str,
    to_str_tuple,
)

AUTO = "auto"
"""In place of a mechanism: the one that adds least error."""
EPSILON, DELTA = 1.0, 1e-6
"""The default budget."""
Use = Literal["linear", "any-model"]
LINEAR: Use = "linear"
ANY_MODEL: Use = "any-model"
USES: tuple[Use, Use] = (LINEAR, ANY_MODEL)
"""What a release may be used for."""
MechanismName = Literal[
    "auto", "wtd-flag", "shaped-flag", "noisy-rows", "sampled-wtd-flag", "sampled-noisy-wtd-lag"
]
AccountantName = Literal["exact", "exact-worst-case", "paper"]


def number_or_mapping(name: str, value: Any) -> float | Mapping[str, float]:
    """Return a number, or a dictionary of numbers by column."""
    if isinstance(value, Mapping):
        return {to_str(name, key): to_float(name, each) for key, each in value.items()}
    try:
        return to_float(name, value)
    except InputError:
        raise InputError(
            f"`{name}` must be a number or a dictionary, not {describe(value)}"
        ) from None


def option(
    default: Any,
    help: str,
    convert: Callable[[str, Any], Any] = to_float,
    *,
    check: Callable[..., None] | None = None,
) -> Any:
    """Declare a field that is an option; None leaves the choice to the mechanism."""
    return field(default=default, metadata={"help": help, "convert": convert, "check": check})


def required(help: str, check: Callable[..., None]) -> Any:
    """Declare a field that is an option and must be given."""
    return field(metadata={"help": help, "check": check})


def column_names(texts: Iterable[str]) -> tuple[str, ...]:
    """Split comma-separated lists of columns; a name with a comma stands in double quotes."""
    rows = (next(csv.reader([each], skipinitialspace=True), []) for each in texts)
    return tuple(part.strip() for row in rows for part in row if part.strip())


def _check_end_shares(winsor: float | Mapping[str, float]) -> None:
    for each in winsor.values() if isinstance(winsor, Mapping) else [winsor]:
        end_share(winsor=each)


def _check_basis(basis: str) -> None:
    if basis not in ("linear", "auto"):
        from labeldp.features.basis import BasisSpec  # slow to import

        BasisSpec.of(basis, (), 1)


def _check_formula(formula: str) -> None:
    from labeldp.features.formula import formula_label  # slow to import

    formula_label(formula)


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How raw columns become design columns; `fit_features` says what each option does."""

    min_count: int | None = option(
        None,
        "Merge category levels with fewer rows than this (default: the root of the row count).",
        to_int,
    )
    intercept: bool = option(True, "Add a constant column.", to_bool)
    standardise: bool = option(True, "Scale numbers by their public spread.", to_bool)
    indicators: bool = option(True, "Mark missing numbers in a column of their own.", to_bool)
    winsor: float | Mapping[str, float] | None = option(
        None,
        "Share of numbers at each end moved to its public quantile (default: 0.001 of outliers).",
        number_or_mapping,
        check=_check_end_shares,
    )
    log: Sequence[str] = option((), "Columns that enter as sign(x)·log(1 + |x|).", to_str_tuple)
    basis: str = option(
        "linear",
        "Curves of numbers: linear, splines, splines:KNOTS, splines+fourier:N or auto.",
        to_str,
        check=_check_basis,
    )
    interactions: Sequence[str] = option(
        (), "Pairs of columns whose products join the design, or all.", to_str_tuple
    )
    interaction_columns: int = option(
        300, "At most this many columns of products.", to_int, check=partial(at_least, 1)
    )
    formula: str | None = option(
        None,
        "Columns, curves and products at once: 'price ~ spline(age) + sex*edu'.",
        to_str,
        check=_check_formula,
    )
    max_leverage: float | None = option(
        None,
        "Leave out design columns that give a row more leverage than this (0 to 1).",
        check=partial(in_range, 0, 1),
    )
    strict: bool = option(
        False, "Refuse constant or dependent columns (default: leave them out).", to_bool
    )

    def __post_init__(self) -> None:
        check_options(self)
        check_formula_alone(vars(self))


SET_BY_FORMULA = ("intercept", "log", "basis", "interactions")


def check_formula_alone(choices: Mapping[str, Any]) -> None:
    """Refuse options that a formula sets as well."""
    defaults = {each.name: each.default for each in fields(Encoding)}
    for name in SET_BY_FORMULA if choices.get("formula") is not None else ():
        if choices.get(name, defaults[name]) not in (defaults[name], None):
            raise InputError(f"`{name}` is settled by `formula`; leave one of them out")


@dataclass(frozen=True, kw_only=True)
class ForecastOptions:
    """Forecast options."""

    residual_guess: float | None = option(
        None,
        "Guess of the residual mean square, for the forecast only; not a promise.",
        check=positive,
    )

    def residual(self, width: float) -> float:
        """Return the residual mean square to plan with: the guess, or (range/10)²."""
        return self.residual_guess or (width / 10) ** 2

    @property
    def residual_source(self) -> str:
        """Return "stated" if the user gave a guess, else "guess"."""
        return "guess" if self.residual_guess is None else "stated"


_LEAST_MEGABYTES, _MOST_MEGABYTES = 4.0, 128.0


@dataclass(frozen=True, kw_only=True)
class AggregateOptions(ForecastOptions):
    """Aggregate options."""

    bags: int | None = option(
        None,
        "Number of aggregates (default: chosen so that more would not reduce the error).",
        to_int,
        check=partial(at_least, 1),
    )
    max_megabytes: float | None = option(
        None,
        "Largest size of the released file (default: about that of the table).",
        check=positive,
    )

    def megabytes(self, values: int | None = None) -> float:
        """Return the size limit; by default one byte for each value of the table."""
        if self.max_megabytes:
            return self.max_megabytes
        if values is None:
            return _MOST_MEGABYTES
        return min(_MOST_MEGABYTES, max(_LEAST_MEGABYTES, values / 1e6))


def aggregates_in(megabytes: float, columns: int) -> int:
    """Return how many aggregates of `columns` features and a label fit a file of doubles."""
    return int(megabytes * 1e6 / (8 * (columns + 1)))


@dataclass(frozen=True, kw_only=True)
class FloorOptions:
    """Residual floor options."""

    floor: str | None = option(
        None, "Residual floor: measured+added (default), measured, added or declared.", to_str
    )
    residual_ms: float | None = option(
        None, "With `floor='declared'`: the residual mean square you promise.", check=positive
    )


@dataclass(frozen=True, kw_only=True)
class BagOptions:
    """Bag options."""

    bag_size: int | None = option(
        None,
        "Rows in each bag, where bags are drawn (default: the best size).",
        to_int,
        check=partial(at_least, 1),
    )
    over_draw: bool = option(
        False, "Guarantee over the draw of the bags instead of given the bags.", to_bool
    )
    bag_seed: int | None = option(
        None, "Seed of the bags, for experiments: the same seed gives the same bags.",
        to_int, check=partial(at_least, 0),
    )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class WtdFlagOptions(FloorOptions, AggregateOptions):
    """wtd-flag options."""

    compact: bool = option(
        False, "Publish wtd-flag in d+1 rows that carry the same information.", to_bool
    )


RESIDUAL_SHARE = 0.05
GAUSSIAN, RADIAL = "gaussian", "radial"
NOISE_LAWS = (AUTO, GAUSSIAN, RADIAL)
_LEAST_SHARE, _MOST_RIDGE = 1e-12, 1e6


def _check_noise(noise: str) -> None:
    if noise not in NOISE_LAWS:
        raise InputError(f"`noise` must be auto, gaussian or radial, not {noise!r}")


def _check_residual_share(residual_share: float) -> None:
    if not 0 <= residual_share <= 0.9:
        raise InputError(f"`residual_share` must lie between 0 and 0.9, not {residual_share}")
    if 0 < residual_share < _LEAST_SHARE:  # the residual would drown in its noise
        raise InputError(
            f"`residual_share` must be at least {_LEAST_SHARE:g}, not {residual_share}, or 0: none"
        )


def _check_ridge(shape_ridge: float) -> None:
    at_least(0, shape_ridge=shape_ridge)
    if shape_ridge > _MOST_RIDGE:  # every slope would be shrunk to nothing
        raise InputError(f"`shape_ridge` must be at most {_MOST_RIDGE:g}, not {shape_ridge:g}")


_SHARE_HELP = "Share of the budget (μ², or ε for radial noise) spent on publishing the residual"
_NOISE_HELP = "Noise law: gaussian, radial (pure ε) or auto (the one with less variance)."


@dataclass(frozen=True, kw_only=True)
class ShapedFlagOptions(ForecastOptions):
    """shaped-flag options."""

    residual_share: float = option(
        RESIDUAL_SHARE, f"{_SHARE_HELP}; 0: do not publish it.", check=_check_residual_share
    )
    noise: str = option(AUTO, _NOISE_HELP, to_str, check=_check_noise)
    shape_ridge: float | None = option(
        None,
        "Shape the noise for fits that shrink by this ridge; 0 for least squares "
        "(default: chosen).",
        check=_check_ridge,
    )


@dataclass(frozen=True, kw_only=True)
class NoisyRowsOptions(ForecastOptions):
    """noisy-rows options."""

    with_features: bool = option(
        False, "Publish the raw feature columns beside the labels.", to_bool
    )


@dataclass(frozen=True, kw_only=True)
class SampledWtdFlagOptions(BagOptions, FloorOptions, AggregateOptions):
    """sampled-wtd-flag options."""

    min_eigenvalue: float | None = option(
        None,
        "Promise of Theorem 2 about [X|y] (sampled-wtd-flag with accountant paper).",
        check=positive,
    )


@dataclass(frozen=True, kw_only=True)
class SampledNoisyWtdLagOptions(BagOptions, AggregateOptions):
    """sampled-noisy-wtd-lag options."""

    noise_std: float | None = option(
        None,
        "Standard deviation of the noise on labels, in label units (default: what the budget "
        "needs).",
        check=positive,
    )
    noisy_fraction: float | None = option(
        None, "Fraction of the rows whose labels carry noise (default: all)."
    )
    noisy_column: str | None = option(
        None, "Public column that marks the rows whose labels carry noise.", to_str
    )


OPTIONS: dict[str, type[Any]] = {
    "wtd-flag": WtdFlagOptions,
    "shaped-flag": ShapedFlagOptions,
    "noisy-rows": NoisyRowsOptions,
    "sampled-wtd-flag": SampledWtdFlagOptions,
    "sampled-noisy-wtd-lag": SampledNoisyWtdLagOptions,
}
"""The options of our mechanisms, for whoever shows them without importing the mechanisms."""


def _check_range(label_range: tuple[float, float]) -> None:
    ordered(*label_range, name="label_range")


@dataclass(frozen=True, kw_only=True)
class AccountQuestion:
    """Public quantities that `labeldp account` can be asked about.

    A mechanism names those that it uses beside the first five (`Mechanism.account_fields`).
    """

    rows: int = required("Rows in the table.", check=positive)
    label_range: tuple[float, float] = required("Public range of the labels.", check=_check_range)
    epsilon: float = option(1.0, "Privacy budget ε.", check=positive)
    delta: float = option(1e-6, "Privacy budget δ; 0 gives pure ε-DP.", check=share)
    centred: bool = option(True, "The features do not span the constant.")
    residual_ms: float | None = option(
        None,
        "Residual mean square γ: the residual sum of squares is at least γ·rows.",
        check=positive,
    )
    bags: int | None = option(
        None, "Number of bags: report its ε and δ instead of the most.", check=positive
    )
    bag_size: int | None = option(
        None, "Rows in a bag: report its ε and δ instead of the smallest.", check=positive
    )
    max_leverage: float | None = option(
        None, "Largest leverage of the features, for exact.", check=positive
    )
    features: int | None = option(None, "Independent feature columns.", check=partial(at_least, 1))
    leverage_factor: float | None = option(
        None, "Largest leverage in a bag over features/bag-size, for exact.", check=positive
    )
    feature_bound: float | None = option(
        None, "Largest norm of a row of features, for paper.", check=positive
    )
    min_eigenvalue: float | None = option(
        None,
        "Promise on features and label together: σ_min² ≥ this·rows, for paper.",
        check=positive,
    )
    noisy_fraction: float | None = option(
        None, "Fraction of the rows whose labels carry noise.", check=positive
    )
    noise_std: float | None = option(
        None, "Standard deviation of that noise; 1 for labels scaled to -1 … 1.", check=positive
    )
    residual_share: float | None = option(
        None, f"{_SHARE_HELP} (default: 0.05).", check=_check_residual_share
    )
    noise: str | None = option(None, _NOISE_HELP, to_str, check=_check_noise)
    person_rows: int | None = option(
        None, "The most rows of one person, to cover them together.", check=partial(at_least, 1)
    )

    @property
    def budget(self) -> tuple[float, float]:
        return self.epsilon, self.delta

    @property
    def width(self) -> float:
        return self.label_range[1] - self.label_range[0]

    def needed(self, name: str) -> Any:
        """Return a field that the mechanism cannot do without."""
        value = getattr(self, name)
        if value is None:
            raise InputError(f"`{name}` is needed for this mechanism; give it")
        return value


COMMON_ACCOUNT_FIELDS = ("rows", "label_range", "epsilon", "delta", "centred")


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse what is no budget, and budgets beyond what the accountants are tested for."""
    from labeldp.accounting.privacy_profile import LEAST_DELTA, MOST_EPSILON  # slow to import

    positive(epsilon=epsilon)
    share(delta=delta)
    if epsilon > MOST_EPSILON:
        raise InputError(f"`epsilon` must be at most {MOST_EPSILON:g}, not {epsilon:g}")
    if 0 < delta < LEAST_DELTA:
        raise InputError(f"`delta` must be at least {LEAST_DELTA:g}, not {delta:g}, or 0: pure ε")


OptionsT = TypeVar("OptionsT")


@dataclass(frozen=True)
class PlanRequest(Generic[OptionsT]):
    """What is asked of a mechanism's plan."""

    epsilon: float
    delta: float
    accountant: str
    encoding: Encoding
    options: OptionsT
    """The mechanism's own options."""

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)
        check_options(self.options)


def check_options(options: Any) -> None:
    """Run the check of every field that has a value."""
    for each in fields(options):
        check, value = each.metadata.get("check"), getattr(options, each.name)
        if check is not None and value is not None:
            check(**{each.name: value})


def make_options(kind: type[OptionsT], choices: Mapping[str, Any]) -> OptionsT:
    """Return a group of options made of keywords; None leaves a choice to us."""
    converts = {each.name: each.metadata["convert"] for each in fields(kind)}  # type: ignore[arg-type]
    values = {name: value for name, value in choices.items() if value is not None}
    return kind(**{name: converts[name](name, value) for name, value in values.items()})


def names(kind: Any) -> tuple[str, ...]:
    """Return the names of a group's options."""
    return tuple(each.name for each in fields(kind))


def set_options(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices that say something: neither None nor False."""
    return {n: value for n, value in choices.items() if value is not None and value is not False}


def refuse_unknown(choices: Iterable[str], known: Iterable[str]) -> None:
    """Refuse keywords that `plan` does not have, and name the nearest that it has."""
    known = list(known)
    for name in choices:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            remedy = f"did you mean `{close[0]}`?" if close else "leave it out"
            raise InputError(f"plan() has no argument `{name}`; {remedy}")
