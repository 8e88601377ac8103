"""How a network is trained: plain values, checked."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import Any

from labeldp._check import at_least, finite, positive
from labeldp.errors import InputError


@dataclass(frozen=True)
class Settings:
    """The parameters of `BagRegressor` that training reads; see there."""

    hidden: tuple[int, ...]
    epochs: int
    learning_rate: float
    final_rate: float
    batch_rows: int
    patience: int
    validation_fraction: float
    max_norm: float | None
    scale_labels: bool
    seed: int
    threads: int | None

    @classmethod
    def checked(cls, **values: Any) -> Settings:
        """Refuse what cannot be meant, naming it."""
        try:
            settings = cls(
                hidden=tuple(_whole("hidden", width, 1) for width in values["hidden"]),
                epochs=_whole("epochs", values["epochs"], 1),
                learning_rate=float(values["learning_rate"]),
                final_rate=float(values["final_rate"]),
                batch_rows=_whole("batch_rows", values["batch_rows"], 1),
                patience=_whole("patience", values["patience"], 1),
                validation_fraction=float(values["validation_fraction"]),
                max_norm=None if values["max_norm"] is None else float(values["max_norm"]),
                scale_labels=bool(values["scale_labels"]),
                seed=_whole("seed", values["seed"], 0),
                threads=None
                if values["threads"] is None
                else _whole("threads", values["threads"], 1),
            )
        except (TypeError, ValueError) as error:
            raise InputError(f"a parameter of the wrong kind: {error}") from error
        settings._check_ranges()
        return settings

    def _check_ranges(self) -> None:
        positive(learning_rate=self.learning_rate, final_rate=self.final_rate)
        finite(validation_fraction=self.validation_fraction)
        if not 0 <= self.validation_fraction < 1:
            raise InputError(
                f"validation_fraction must be at least 0 and below 1, not "
                f"{self.validation_fraction}"
            )
        if self.seed >= 2**63:
            raise InputError(f"seed must be below 2**63, not {self.seed}")
        if self.max_norm is not None:
            positive(max_norm=self.max_norm)


def _whole(name: str, value: Any, low: int) -> int:
    try:
        number = index(value)
    except TypeError:
        raise InputError(f"{name} must be a whole number, not {value!r}") from None
    at_least(low, **{name: number})
    return number
