"""Options of `plan`, of the mechanisms and of `labeldp account`: frozen dataclasses.

Every option is a field with the function that checks its value and makes a plain Python value of
it (of NumPy's, say). One that is None leaves the choice to the mechanism. `labeldp.plan` and the
command line say what each option does. The command line imports this module, so nothing here may
import NumPy, PyArrow or other modules that are slow to load.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from functools import partial
from typing import Any, Generic, Literal, TypeVar

from labeldp.errors import (
    InputError,
    at_least,
    one_of,
    positive,
    to_bool,
    to_float,
    to_int,
    to_range,
    to_str,
    to_str_tuple,
)

AUTO = "auto"
"""In place of a mechanism: the one that adds least error."""
EPSILON, DELTA = 1.0, 1e-6
"""The default budget."""
MechanismName = Literal[
    "auto", "wtd-flag", "shaped-flag", "noisy-rows", "sampled-wtd-flag", "sampled-noisy-wtd-lag"
]
AccountantName = Literal["exact", "exact-worst-case"]
GAUSSIAN, RADIAL = "gaussian", "radial"
DECLARED = "declared"
FLOORS = ("measured+added", "added", DECLARED)
"""Ways to establish a residual floor; the first is the default."""
RESIDUAL_SHARE = 0.05
Converter = Callable[[str, Any], Any]
"""(name, value) ↦ a plain value; it refuses any other with a message that names the option."""


def option(converter: Converter, default: Any = None) -> Any:
    """Declare an option: a dataclass field whose value, if there is one, is converted."""
    return field(default=default, metadata={"converter": converter})


@dataclass(frozen=True, kw_only=True)
class OptionGroup:
    """Options that are checked when they are set."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if (value := getattr(self, each.name)) is not None:
                plain = each.metadata["converter"](each.name, value)
                object.__setattr__(self, each.name, plain)


def names(kind: Any) -> tuple[str, ...]:
    """Return the names of a group's options."""
    return tuple(each.name for each in fields(kind))


def column_names(texts: Iterable[str]) -> tuple[str, ...]:
    """Split comma-separated lists of columns; a name with a comma stands in double quotes."""
    rows = (next(csv.reader([each], skipinitialspace=True), []) for each in texts)
    return tuple(part.strip() for row in rows for part in row if part.strip())


# ---- values


def checked(to_number: Converter, check: Callable[..., None]) -> Converter:
    """Return a converter of numbers that `check(name=number)` does not refuse."""

    def converter(name: str, value: Any) -> Any:
        number = to_number(name, value)
        check(**{name: number})
        return number

    return converter


_count = checked(to_int, partial(at_least, 1))
_seed = checked(to_int, partial(at_least, 0))
_positive = checked(to_float, positive)
_end_share = checked(to_float, partial(at_least, 0, 0.5))


def _ridge(name: str, value: Any) -> float:
    number = to_float(name, value)
    if not 0 <= number <= 1e6:
        raise InputError(f"`{name}` must lie between 0 and 1e6, not {number:g}")
    return number


def _residual_share(name: str, value: Any) -> float:
    number = to_float(name, value)
    if number and not 1e-12 <= number <= 0.9:  # less, and the residual would drown in its noise
        raise InputError(f"`{name}` must be 0 or lie between 1e-12 and 0.9, not {number:g}")
    return number


_noise = partial(one_of, choices=(AUTO, GAUSSIAN, RADIAL))


# ---- options of `plan`


@dataclass(frozen=True, kw_only=True)
class Encoding(OptionGroup):
    """How raw columns become design columns; `fit_features` says what each option does."""

    min_count: int | None = option(to_int)
    intercept: bool = option(to_bool, True)
    standardise: bool = option(to_bool, True)
    indicators: bool = option(to_bool, True)
    winsor: float | None = option(_end_share)
    log: Sequence[str] = option(to_str_tuple, ())
    basis: str = option(to_str, "linear")
    interactions: Sequence[str] = option(to_str_tuple, ())
    formula: str | None = option(to_str)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.formula is not None:
            for name in ("intercept", "log", "basis", "interactions"):
                if getattr(self, name) != getattr(Encoding, name):
                    raise InputError(f"`{name}` is settled by `formula`; leave one of them out")


_LEAST_MEGABYTES, _MOST_MEGABYTES = 4.0, 128.0


@dataclass(frozen=True, kw_only=True)
class ForecastOptions(OptionGroup):
    """An option of every mechanism."""

    residual_guess: float | None = option(_positive)

    def residual(self, width: float) -> float:
        """Return the residual mean square to plan with: the guess, or (range/10)²."""
        return self.residual_guess or (width / 10) ** 2

    @property
    def residual_source(self) -> str:
        """Return "stated" if the user gave a guess, else "guess"."""
        return "guess" if self.residual_guess is None else "stated"


@dataclass(frozen=True, kw_only=True)
class AggregateOptions(ForecastOptions):
    """How many aggregates."""

    bags: int | None = option(_count)
    max_megabytes: float | None = option(_positive)

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
class FloorOptions(AggregateOptions):
    """The residual floor (`residual_floor`): all options of wtd-flag."""

    floor: str = option(partial(one_of, choices=FLOORS), FLOORS[0])
    residual_ms: float | None = option(_positive)

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.floor == DECLARED) != (self.residual_ms is not None):
            raise InputError("a declared floor and `residual_ms` go together: give both or neither")

    def residual(self, width: float) -> float:
        return self.residual_ms or super().residual(width)

    @property
    def residual_source(self) -> str:
        return "stated" if self.residual_ms else super().residual_source


@dataclass(frozen=True, kw_only=True)
class BagOptions(AggregateOptions):
    """Bags of rows that are drawn."""

    bag_size: int | None = option(_count)
    over_draw: bool = option(to_bool, False)
    bag_seed: int | None = option(_seed)


@dataclass(frozen=True, kw_only=True)
class ShapedFlagOptions(ForecastOptions):
    """shaped-flag."""

    residual_share: float = option(_residual_share, RESIDUAL_SHARE)
    noise: str = option(_noise, AUTO)
    shape_ridge: float | None = option(_ridge)


@dataclass(frozen=True, kw_only=True)
class NoisyRowsOptions(ForecastOptions):
    """noisy-rows."""

    with_features: bool = option(to_bool, False)


@dataclass(frozen=True, kw_only=True)
class SampledWtdFlagOptions(BagOptions, FloorOptions):
    """sampled-wtd-flag."""


@dataclass(frozen=True, kw_only=True)
class SampledNoisyWtdLagOptions(BagOptions):
    """sampled-noisy-wtd-lag."""

    noise_std: float | None = option(_positive)
    noisy_fraction: float | None = option(_positive)


OptionsT = TypeVar("OptionsT")


@dataclass(frozen=True)
class PlanRequest(Generic[OptionsT]):
    """What is asked of a mechanism's plan."""

    epsilon: float
    delta: float
    accountant: str
    options: OptionsT
    """The mechanism's own options."""

    def __post_init__(self) -> None:
        check_budget(self.epsilon, self.delta)


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse what is no budget, and budgets beyond what the accountants are tested for."""
    from labeldp.accounting.privacy_profile import LEAST_DELTA, MOST_EPSILON  # slow to import

    positive(epsilon=epsilon)
    at_least(0, 1, delta=delta)
    if epsilon > MOST_EPSILON:
        raise InputError(f"`epsilon` must be at most {MOST_EPSILON:g}, not {epsilon:g}")
    if 0 < delta < LEAST_DELTA:
        raise InputError(f"`delta` must be at least {LEAST_DELTA:g}, not {delta:g}, or 0: pure ε")


def set_options(choices: Mapping[str, Any]) -> dict[str, Any]:
    """Return the choices that say something: neither None nor False."""
    return {n: value for n, value in choices.items() if value is not None and value is not False}


def make_options(kind: type[OptionsT], choices: Mapping[str, Any]) -> OptionsT:
    """Return a group of options, made of those of the choices that belong to it and are set."""
    return kind(**{n: choices[n] for n in names(kind) if choices.get(n) is not None})


COMMON_ACCOUNT_FIELDS = ("rows", "label_range", "epsilon", "delta", "centred")


@dataclass(frozen=True, kw_only=True)
class AccountQuestion(OptionGroup):
    """Public quantities that `labeldp account` can be asked about.

    A mechanism names those that it uses beside the first five (`Mechanism.account_fields`).
    """

    rows: int = option(_count, MISSING)
    label_range: tuple[float, float] = option(to_range, MISSING)
    epsilon: float = option(to_float, EPSILON)
    delta: float = option(to_float, DELTA)
    centred: bool = option(to_bool, True)
    residual_ms: float | None = option(_positive)
    """γ: the residual sum of squares is at least γ·rows."""
    bags: int | None = option(_count)
    bag_size: int | None = option(_count)
    max_leverage: float | None = option(_positive)
    features: int | None = option(_count)
    """Independent feature columns."""
    noisy_fraction: float | None = option(_positive)
    noise_std: float | None = option(_positive)
    residual_share: float | None = option(_residual_share)
    noise: str | None = option(_noise)
    person_rows: int | None = option(_count)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_budget(self.epsilon, self.delta)

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
