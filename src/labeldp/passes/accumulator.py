"""What a pass over the rows of a source adds up: the accumulator protocol.

An engine gives the rows, in any order and on any number of threads or machines, to accumulators
of one kind, merges their states and asks for the result. Accumulators are exact, so all engines
give the same result. Engines know nothing of statistics: a new statistic is a new accumulator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from labeldp.data.persons import without_person_hashes
from labeldp.data.source import Source

if TYPE_CHECKING:
    from labeldp.features.encoder import Rows
    from labeldp.features.feature_map import FeatureMap

Labels = NDArray[np.float64]
Batch: TypeAlias = "tuple[Rows, Labels | None]"
"""Rows as they came or packed, and their labels if the pass reads them."""
RowNumber = Callable[[int], int | None]
"""From a number that `Accumulator.add` was given to the row's in the table; None: it has none."""

Result = TypeVar("Result", covariant=True)
One = TypeVar("One")


@dataclass(frozen=True)
class PassRequirements:
    """What an accumulator needs of a pass.

    Of every engine:
    columns:     raw columns that every row has, perhaps beside others;
    features:    rows come encoded by this map; None: as they came;
    labels:      labels come along, and wrong ones are refused after the last row.

    For the local engine, its threads and its memory:
    state_bytes: bytes that one accumulator takes, where they are many;
    cache_keys:  what tells this result from others of the same rows, then what tells results that
                 ask for less and that it contains. Results without labels are remembered by all
                 their keys as long as the rows stay in memory; without keys none is.

    For Spark's engine, whose rows may be others each time they are read:
    row_check:   an accumulator to run along, and a function of its result: whether the rows are
                 those that this one was made for.
    """

    columns: tuple[str, ...]
    features: FeatureMap | None = None
    labels: bool = False
    state_bytes: int = 0
    cache_keys: tuple[object, ...] = ()
    row_check: tuple[Accumulator[Any], Callable[[Any], bool]] | None = None

    @property
    def packed_form(self) -> object:
        """All that rows depend on once they are packed; None: they are not."""
        return None if self.features is None else self.features.packed_form


class Accumulator(Protocol[Result]):
    """What a pass adds up. The one that is handed to an engine stays empty."""

    @property
    def requirements(self) -> PassRequirements: ...

    def new(self) -> Accumulator[Result]:
        """Return an empty one. What must be computed once, before the pass, is computed here."""

    def add(self, rows: Any, labels: Any, first: int, /) -> None:
        """Take in rows in the required form, labels or None, and the first row's number.

        It is that in the table, or on Spark that in a partition.
        """

    def state(self) -> Any:
        """Return what its rows added up to, in plain values that may go to another machine."""

    def merge(self, state: Any, /) -> None:
        """Take in the state of another."""

    def result(self, row: RowNumber, /) -> Result:
        """Return the result of all rows, or raise why they are refused."""


class RunPass(Protocol):
    """run_pass(task, source, accumulator, …): results of one pass; `task` names its bar."""

    @overload
    def __call__(self, task: str, source: Source, one: Accumulator[One], /) -> One: ...

    @overload
    def __call__(self, task: str, source: Source, /, *several: Accumulator[Any]) -> Any: ...


def combine(requirements: Sequence[PassRequirements]) -> PassRequirements:
    """Return what several accumulators require of one pass: rows of one form."""
    first = requirements[0]
    # Equal joint codes and numbers: which design columns are kept does not matter to rows.
    forms = [
        (each.columns, each.features and (each.features.packed_form, each.features.basis))
        for each in requirements
    ]
    if any(form != forms[0] for form in forms):
        raise ValueError("accumulators of one pass need the same columns in the same form")
    return PassRequirements(
        first.columns,
        first.features,
        labels=any(each.labels for each in requirements),
        state_bytes=sum(each.state_bytes for each in requirements),
    )


def states_of(
    accumulators: Sequence[Accumulator[Any]],
    features: FeatureMap | None,
    numbered: Iterable[tuple[int, Batch]],
) -> list[Any]:
    """Return the states after these rows, of which each batch has the number of its first row."""
    encode: Callable[[Any], Any] = without_person_hashes if features is None else features.encoder()
    fresh = [accumulator.new() for accumulator in accumulators]
    for first, (rows, labels) in numbered:
        encoded = encode(rows)
        for accumulator in fresh:
            accumulator.add(encoded, labels, first)
    return [accumulator.state() for accumulator in fresh]
