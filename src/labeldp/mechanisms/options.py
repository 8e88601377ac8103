"""Options of `plan`, of the mechanisms and of `labeldp account`: frozen dataclasses.

An option that is None, or absent, leaves the choice to the mechanism. `labeldp.plan` and the
command line say what each option does. The command line imports this module, so nothing here may
import NumPy, PyArrow or other modules that are slow to load.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Generic, Literal, TypeVar

from labeldp.errors import (
    InputError,
    at_least,
    describe,
    end_share,
    in_range,
    one_of,
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
GAUSSIAN, RADIAL = "gaussian", "radial"
NOISE_LAWS = (AUTO, GAUSSIAN, RADIAL)
RESIDUAL_SHARE = 0.05


def convert(options: Any, **converters: Callable[[str, Any], Any]) -> None:
    """Check the fields that are set and make plain Python values of them (of NumPy's, say)."""
    for name, to in converters.items():
        if (value := getattr(options, name)) is not None:
            object.__setattr__(options, name, to(name, value))


def _count(name: str, value: Any) -> int:
    number = to_int(name, value)
    at_least(1, **{name: number})
    return number


def _positive(name: str, value: Any) -> float:
    number = to_float(name, value)
    positive(**{name: number})
    return number


def names(kind: Any) -> tuple[str, ...]:
    """Return the names of a group's options."""
    return tuple(each.name for each in fields(kind))


def column_names(texts: Iterable[str]) -> tuple[str, ...]:
    """Split comma-separated lists of columns; a name with a comma stands in double quotes."""
    rows = (next(csv.reader([each], skipinitialspace=True), []) for each in texts)
    return tuple(part.strip() for row in rows for part in row if part.strip())


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """How raw columns become design columns; `fit_features` says what each option does."""

    min_count: int | None = None
    intercept: bool = True
    standardise: bool = True
    indicators: bool = True
    winsor: float | Mapping[str, float] | None = None
    log: Sequence[str] = ()
    basis: str = "linear"
    interactions: Sequence[str] = ()
    interaction_columns: int = 300
    formula: str | None = None
    max_leverage: float | None = None
    strict: bool = False

    def __post_init__(self) -> None:
        convert(self, intercept=to_bool, standardise=to_bool, indicators=to_bool, strict=to_bool)
        convert(self, log=to_str_tuple, interactions=to_str_tuple, basis=to_str, formula=to_str)
        convert(self, min_count=to_int, interaction_columns=_count, max_leverage=to_float)
        convert(self, winsor=_to_end_shares)
        if self.max_leverage is not None:
            in_range(0, 1, max_leverage=self.max_leverage)
        if self.formula is not None:
            for name in ("intercept", "log", "basis", "interactions"):
                if getattr(self, name) != getattr(Encoding, name):
                    raise InputError(f"`{name}` is settled by `formula`; leave one of them out")


def _to_end_shares(name: str, value: Any) -> float | dict[str, float]:
    """Return a share of each tail, or a dictionary of shares by column."""
    if isinstance(value, Mapping):
        shares = {to_str(name, key): to_float(name, each) for key, each in value.items()}
        for each in shares.values():
            end_share(winsor=each)
        return shares
    try:
        one = to_float(name, value)
    except InputError:
        raise InputError(
            f"`{name}` must be a number or a dictionary, not {describe(value)}"
        ) from None
    end_share(winsor=one)
    return one


# ---- options of the mechanisms: they inherit from one another


@dataclass(frozen=True, kw_only=True)
class ForecastOptions:
    """An option of every mechanism."""

    residual_guess: float | None = None

    def __post_init__(self) -> None:
        convert(self, residual_guess=_positive)

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
    """How many aggregates."""

    bags: int | None = None
    max_megabytes: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, bags=_count, max_megabytes=_positive)

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
    """The residual floor; `residual_floor.floor_mode` knows its modes."""

    floor: str | None = None
    residual_ms: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, floor=to_str, residual_ms=_positive)


@dataclass(frozen=True, kw_only=True)
class BagOptions(AggregateOptions):
    """Bags of rows that are drawn."""

    bag_size: int | None = None
    over_draw: bool = False
    bag_seed: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, bag_size=_count, over_draw=to_bool, bag_seed=to_int)
        at_least(0, bag_seed=self.bag_seed or 0)


@dataclass(frozen=True, kw_only=True)
class WtdFlagOptions(FloorOptions):
    """wtd-flag."""

    compact: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, compact=to_bool)


@dataclass(frozen=True, kw_only=True)
class ShapedFlagOptions(ForecastOptions):
    """shaped-flag."""

    residual_share: float = RESIDUAL_SHARE
    noise: str = AUTO
    shape_ridge: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, residual_share=to_float, shape_ridge=to_float)
        _check_sum_noise(self.residual_share, self.noise)
        if self.shape_ridge is not None and not 0 <= self.shape_ridge <= 1e6:
            raise InputError(f"`shape_ridge` must lie between 0 and 1e6, not {self.shape_ridge:g}")


def _check_sum_noise(residual_share: float, noise: str) -> None:
    # With a smaller share than this the residual would drown in its noise.
    if residual_share and not 1e-12 <= residual_share <= 0.9:
        raise InputError(
            f"`residual_share` must be 0 or lie between 1e-12 and 0.9, not {residual_share:g}"
        )
    one_of("noise", noise, NOISE_LAWS)


@dataclass(frozen=True, kw_only=True)
class NoisyRowsOptions(ForecastOptions):
    """noisy-rows."""

    with_features: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, with_features=to_bool)


@dataclass(frozen=True, kw_only=True)
class SampledWtdFlagOptions(BagOptions, FloorOptions):
    """sampled-wtd-flag."""

    min_eigenvalue: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, min_eigenvalue=_positive)


@dataclass(frozen=True, kw_only=True)
class SampledNoisyWtdLagOptions(BagOptions):
    """sampled-noisy-wtd-lag."""

    noise_std: float | None = None
    noisy_fraction: float | None = None
    noisy_column: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        convert(self, noise_std=_positive, noisy_fraction=to_float, noisy_column=to_str)


# ---- requests

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


def check_budget(epsilon: float, delta: float) -> None:
    """Refuse what is no budget, and budgets beyond what the accountants are tested for."""
    from labeldp.accounting.privacy_profile import LEAST_DELTA, MOST_EPSILON  # slow to import

    positive(epsilon=epsilon)
    share(delta=delta)
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
class AccountQuestion:
    """Public quantities that `labeldp account` can be asked about.

    A mechanism names those that it uses beside the first five (`Mechanism.account_fields`).
    """

    rows: int
    label_range: tuple[float, float]
    epsilon: float = EPSILON
    delta: float = DELTA
    centred: bool = True
    residual_ms: float | None = None
    """γ: the residual sum of squares is at least γ·rows."""
    bags: int | None = None
    bag_size: int | None = None
    max_leverage: float | None = None
    features: int | None = None
    """Independent feature columns."""
    leverage_factor: float | None = None
    """Largest leverage in a bag over features/bag_size."""
    feature_bound: float | None = None
    """Largest norm of a row of features."""
    min_eigenvalue: float | None = None
    """Promise of Theorem 2 on features and label together: σ_min² ≥ this·rows."""
    noisy_fraction: float | None = None
    noise_std: float | None = None
    residual_share: float | None = None
    noise: str | None = None
    person_rows: int | None = None

    def __post_init__(self) -> None:
        ordered(*self.label_range, name="label_range")
        check_budget(self.epsilon, self.delta)
        _check_sum_noise(self.residual_share or 0.0, self.noise or AUTO)
        other = (*COMMON_ACCOUNT_FIELDS[1:], "residual_share", "noise")
        values = {name: getattr(self, name) for name in names(self) if name not in other}
        for name, value in values.items():
            if value is not None and name in ("features", "person_rows"):
                at_least(1, **{name: value})
            elif value is not None:
                positive(**{name: value})

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
