"""How a network is trained: plain values, checked."""

from __future__ import annotations

from dataclasses import dataclass

from labeldp.common.arguments import plain_fields
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
    shrink: bool | None = None
    folds: int = 5
    clip: bool = True
    seed: int = 0
    threads: int | None = None

    def checked(self) -> Settings:
        """The same in plain numbers; refuse what cannot be meant, naming it."""
        settings = Settings(**plain_fields(Settings, vars(self)))
        settings._check_ranges()
        return settings

    @property
    def one_network(self) -> list[str]:
        """What it asks for that only a network of its own, as it was trained, can be."""
        asked = {
            "max_norm": self.max_norm is not None,
            "scale_labels": not self.scale_labels,
            "validation_fraction": self.validation_fraction == 0,
        }
        return [name for name, wanted in asked.items() if wanted]

    def _check_ranges(self) -> None:
        at_least(1, epochs=self.epochs, batch_rows=self.batch_rows, patience=self.patience)
        at_least(
            1,
            hidden=min(self.hidden, default=1),
            threads=1 if self.threads is None else self.threads,
        )
        at_least(2, folds=self.folds)
        at_least(0, seed=self.seed)
        positive(learning_rate=self.learning_rate, final_rate=self.final_rate)
        finite(validation_fraction=self.validation_fraction)
        if not 0 <= self.validation_fraction < 1:
            raise InputError(
                f"`validation_fraction` must be at least 0 and below 1, not "
                f"{self.validation_fraction}"
            )
        if self.seed >= 2**63:
            raise InputError(f"`seed` must be below 2**63, not {self.seed}")
        if self.max_norm is not None:
            positive(max_norm=self.max_norm)
        if self.shrink and self.one_network:
            others = " and ".join(f"`{name}`" for name in self.one_network)
            raise InputError(f"`shrink=True` averages networks: leave {others} out")
