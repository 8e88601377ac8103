"""How a release is paid for: what a plan asks of a ledger, and what it does without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from labeldp.engines import Engine
from labeldp.source import Source

if TYPE_CHECKING:
    from labeldp.mechanisms.plan import Plan


class Receipt(Protocol):
    """What a release was paid with; a `with` block around the run, which says how it ended."""

    @property
    def told(self) -> dict[str, Any] | None:
        """What the certificate says of it."""

    def done(self, seal: str) -> None:
        """The release is there."""

    def __enter__(self) -> Receipt: ...

    def __exit__(self, *problem: Any) -> None: ...


class Book(Protocol):
    """A ledger (`signoff/ledger.py`)."""

    def debit(self, plan: Plan, source: Source, engine: Engine, dataset: str) -> Receipt:
        """Pay for a release before its labels are read, or refuse."""


class Unpaid:
    """No ledger is kept."""

    told = None

    def done(self, seal: str) -> None:
        """Nobody is told."""

    def __enter__(self) -> Unpaid:
        return self

    def __exit__(self, *problem: Any) -> None:
        return
