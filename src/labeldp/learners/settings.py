"""How a network is trained: plain values, checked."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index
from typing import Any

from labeldp.errors import InputError, at_least, finite, positive


@dataclass(frozen=True)
class Settings:
    """The parameters of `BagRegressor` that training reads; see there."""

    hidden: tuple[int, ...] = (128, 64)
    epochs: int = 200
    learning_rate: float = 1e-3
    final_rate: float = 1e-6
    batch_rows: int = 8192
    patience: int = 3
    validation_fraction: float = 0.1
    max_norm: float | None = None
    scale_labels: bool = True
    seed: int = 0
    threads: int | None = None

    def checked(self) -> Settings:
        """The same in plain numbers; refuse what cannot be meant, naming it."""
        try:
            settings = Settings(
                hidden=tuple(_whole("hidden", width, 1) for width in self.hidden),
                epochs=_whole("epochs", self.epochs, 1),
                learning_rate=float(self.learning_rate),
                final_rate=float(self.final_rate),
                batch_rows=_whole("batch_rows", self.batch_rows, 1),
                patience=_whole("patience", self.patience, 1),
                validation_fraction=float(self.validation_fraction),
                max_norm=None if self.max_norm is None else float(self.max_norm),
                scale_labels=bool(self.scale_labels),
                seed=_whole("seed", self.seed, 0),
                threads=None if self.threads is None else _whole("threads", self.threads, 1),
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
                f"`validation_fraction` must be at least 0 and below 1, not "
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
