"""One pass over the rows of a source: what a tally is, and the loop that every engine runs.

A fold gives the rows, in any order and on any number of threads or machines, to tallies of
one kind, merges their shares and asks for the result. Tallies are exact, so all folds give
the same. Engines know nothing of what is tallied: a new statistic is a new tally. The simplest
of them, `ChosenRows`, stands here: some rows, for those who need them one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, Protocol, TypeVar, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers
from labeldp.data.labels import LabelCheck
from labeldp.data.persons import without_person_hashes
from labeldp.data.source import Source
from labeldp.features.encoder import Encoded, Encoder, Rows
from labeldp.features.feature_map import FeatureMap
from labeldp.kernels import kernels_for

Labels = NDArray[np.float64]
Pair = tuple[Rows, Labels | None]
"""Rows, with their labels if they are asked for."""
RowNumber = Callable[[int], int | None]
"""From a number that `Accumulator.add` was given to the row's in the table; None: it has none."""

Result = TypeVar("Result", covariant=True)
One = TypeVar("One")
Two = TypeVar("Two")
Three = TypeVar("Three")


@dataclass(frozen=True)
class PassRequirements:
    """What a tally needs of those who fold it, and what some of them ask of it.

    Every engine:
    columns:   of every row;
    features:  rows come encoded by this map; None: as they came;
    labels:    labels come along, and wrong ones are refused after the last row;
    numbered:  rows come with their very numbers in the table, to tallies of one process, which
               may write to one array.

    The local engine, for its threads (`room`), its memory (`keep`, `key`, `answers`) and the file
    of a pass that may be resumed (`bound_to`):
    room:      bytes that one takes, where they are many;
    keep:      columns as they came are worth keeping in memory; encoded ones always are;
    key:       tallies of equal keys have equal results while the rows stay in memory; None, and
               always with labels: no result is remembered;
    answers:   the key of a tally that asks for less: its result would serve as this one's does;
    bound_to:  gives, as JSON, all that shares depend on besides the rows, if they may wait in a
               private file; they then are dictionaries of arrays and of what JSON holds.

    Spark's engine, whose rows may be others each time they are read:
    made_for:  a tally to fold along, and what its result tells: whether the rows are those that
               this one was made for.
    """

    columns: tuple[str, ...]
    features: FeatureMap | None = None
    labels: bool = False
    numbered: bool = False
    room: int = 0
    keep: bool = False
    key: object = None
    answers: object = None
    bound_to: Callable[[], Any] | None = None
    made_for: tuple[Accumulator[Any], Callable[[Any], bool]] | None = None

    @property
    def form(self) -> object:
        """All that the rows depend on once they are packed; None: they are not."""
        features = self.features
        return None if features is None else (features.numeric, features.categorical)

    @property
    def rows(self) -> object:
        """All that they depend on as tallies get them: a basis is derived after packing."""
        return self.columns, self.form, self.features and self.features.basis

    def check(self, source: Source) -> LabelCheck | None:
        """What checks the labels of a pass, if it reads them."""
        return source.label_check() if self.labels else None


class Accumulator(Protocol[Result]):
    """What a pass adds up. The one that is handed to a fold stays empty."""

    @property
    def needs(self) -> PassRequirements: ...

    def new(self) -> Accumulator[Result]:
        """An empty one. What must be computed once, where the pass begins, is computed here."""

    def add(self, rows: Any, labels: Any, first: int, /) -> None:
        """Take in rows in the form that is needed, and labels or None; the first row's number."""

    def share(self) -> Any:
        """What its rows showed, in plain values that may travel to another machine."""

    def merge(self, share: Any, /) -> None:
        """Take in the share of another."""

    def result(self, row: RowNumber, /) -> Result:
        """What all rows show, or why they are refused."""


class Fold(Protocol):
    """fold(task, source, tally, …): the results of one pass over all rows; `task` names its bar."""

    @overload
    def __call__(self, task: str, source: Source, tally: Accumulator[One], /) -> One: ...

    @overload
    def __call__(
        self, task: str, source: Source, tally: Accumulator[One], another: Accumulator[Two], /
    ) -> tuple[One, Two]: ...

    @overload
    def __call__(
        self,
        task: str,
        source: Source,
        tally: Accumulator[One],
        two: Accumulator[Two],
        three: Accumulator[Three],
        /,
    ) -> tuple[One, Two, Three]: ...


def together(needs: Sequence[PassRequirements]) -> PassRequirements:
    """What several tallies need of one pass: rows of one form."""
    first, *others = needs
    if any(each.rows != first.rows for each in others):
        raise ValueError("tallies of one pass need the same columns in the same form")
    bounds = [each.bound_to for each in needs if each.bound_to is not None]
    return PassRequirements(
        first.columns,
        first.features,
        labels=any(each.labels for each in needs),
        numbered=any(each.numbered for each in needs),
        keep=any(each.keep for each in needs),
        room=sum(each.room for each in needs),
        bound_to=(lambda: [each() for each in bounds]) if len(bounds) == len(needs) else None,
    )


def pairs_of(source: Source, needs: PassRequirements, check: LabelCheck | None) -> Iterator[Pair]:
    """The rows of a source as they come, labels checked."""
    if check is None:
        return zip(source.feature_batches(needs.columns), repeat(None))
    return source.labelled_batches(check, needs.columns)


def add_up(
    tallies: Sequence[Accumulator[Any]],
    features: FeatureMap | None,
    numbered: Iterable[tuple[int, Rows, Labels | None]],
) -> None:
    """Give every tally all of these rows, each with the number of the first."""
    encode: Callable[[Rows], Any] = (
        without_person_hashes if features is None else Encoder(features, kernels_for(features.rows))
    )
    for first, rows, labels in numbered:
        ready = encode(rows)
        for tally in tallies:
            tally.add(ready, labels, first)


def shares_of(
    source: Source,
    tallies: Sequence[Accumulator[Any]],
    needs: PassRequirements,
    check: LabelCheck | None,
    advance: Callable[[int], None] = lambda _rows: None,
) -> list[Any]:
    """The shares of one source, or one part of it, read from its first row to its last."""

    def numbered() -> Iterator[tuple[int, pa.RecordBatch, Labels | None]]:
        first = 0
        for rows, labels in pairs_of(source, needs, check):
            yield first, rows, labels
            first += rows.num_rows
            advance(rows.num_rows)

    fresh = [tally.new() for tally in tallies]
    add_up(fresh, needs.features, numbered())
    return [tally.share() for tally in fresh]


def fold_in_order(
    _task: str,
    source: Source,
    /,
    *tallies: Accumulator[Any],
    progress: Callable[[int], None] = lambda _rows: None,
) -> Any:
    """The fold without an engine: one batch after another."""
    needs = together([tally.needs for tally in tallies])
    totals = [tally.new() for tally in tallies]
    check = needs.check(source)
    merge_into(totals, shares_of(source, totals, needs, check, progress))
    if check is not None:
        check.finish()
    return results_of([total.result(int) for total in totals])


def merge_into(totals: Sequence[Accumulator[Any]], shares: Sequence[Any]) -> None:
    """Merge the shares of some of the rows."""
    for total, share in zip(totals, shares, strict=True):
        total.merge(share)


def results_of(results: Sequence[Any]) -> Any:
    """One result as it is, several as a tuple: what a fold returns."""
    return results[0] if len(results) == 1 else tuple(results)


class ChosenRows:
    """A tally that encodes rows with these increasing numbers and, if asked, takes their labels.

    Every row is read, so that all labels are checked; only the chosen ones are encoded. The
    result is how many rows there were, the chosen ones and their labels.
    """

    def __init__(
        self, features: FeatureMap, wanted: NDArray[np.int64], *, labels: bool = False
    ) -> None:
        size = len(wanted)
        self._features, self._wanted, self._rows = features, wanted, 0
        self._encode = Encoder(features)
        self._numbers = np.empty((size, len(features.number_columns)))
        self._codes = tuple(np.empty(size, dtype=np.int32) for _ in features.compounds.groups)
        self._labels = np.empty(size if labels else 0)
        self._labelled = labels

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("chosen rows may have private labels and are not written anywhere")

    @property
    def needs(self) -> PassRequirements:
        columns = self._features.columns
        return PassRequirements(columns, labels=self._labelled, numbered=True, keep=True)

    def new(self) -> ChosenRows:
        """Another that writes to the same arrays: no two see the same row."""
        fresh = object.__new__(ChosenRows)
        vars(fresh).update(vars(self), _encode=Encoder(self._features), _rows=0)
        return fresh

    def add(self, rows: pa.RecordBatch, labels: Labels | None, first: int) -> None:
        self._rows += rows.num_rows
        start, stop = np.searchsorted(self._wanted, [first, first + rows.num_rows])
        if start == stop:
            return
        places, here = slice(start, stop), self._wanted[start:stop] - first
        encoded = self._encode(rows.take(arrow_numbers(here)))
        self._numbers[places] = encoded.numbers
        for column, codes in zip(self._codes, encoded.codes, strict=True):
            column[places] = codes
        if labels is not None:
            self._labels[places] = labels[here]

    def share(self) -> int:
        return self._rows

    def merge(self, share: int) -> None:
        self._rows += share

    def result(self, *_: object) -> tuple[int, Encoded, Labels]:
        compounds = self._features.compounds
        encoded = Encoded(len(self._wanted), self._numbers, self._codes, compounds)
        return self._rows, encoded, self._labels
