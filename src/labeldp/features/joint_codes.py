"""Categories merged into a few joint codes, so that a row is counted only a few times.

Seven categories have 21 pairs; merged into three groups they have 3. What the Gram matrix needs
of each pair of categories is a margin of the group tables, taken once at the end.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import comb, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.kernels import Codes, code_kind

_MOST_CODES = 2500
"""Codes of a merged group, at most."""
_MOST_CELLS = 1 << 23
"""Cells of all tables between groups, at most: every thread has its own."""
_NEAR_CELLS = 1 << 16
"""About what the processor's cache holds: so many more cells cost as much as one more table."""


@dataclass(frozen=True)
class JointCategoryCodes:
    """Which categories share a code. Positions in `groups` are those of the categories."""

    sizes: tuple[int, ...]
    groups: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, sizes: Sequence[int]) -> JointCategoryCodes:
        """Merge the smallest first: few tables, but small ones.

        Where not even two categories may be merged, the tables are those of the Gram matrix.
        """
        limits = [_MOST_CODES >> halved for halved in range(_MOST_CODES.bit_length())]
        groupings = dict.fromkeys(_merged(sizes, limit) for limit in limits)
        choices = [cls(tuple(sizes), groups) for groups in groupings]
        fitting = [choice for choice in choices if choice.cells <= _MOST_CELLS]
        return min(fitting or choices[-1:], key=lambda choice: choice.cost)

    @cached_property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Levels of every member of every group."""
        return tuple(tuple(self.sizes[member] for member in group) for group in self.groups)

    @cached_property
    def widths(self) -> tuple[int, ...]:
        """Number of codes of every group."""
        return tuple(map(prod, self.shapes))

    @cached_property
    def kinds(self) -> tuple[np.dtype[Any], ...]:
        """Of every category: the narrowest type for the codes of its group."""
        kinds = dict[int, np.dtype[Any]]()
        for group, width in zip(self.groups, self.widths, strict=True):
            kinds |= dict.fromkeys(group, code_kind(width))
        return tuple(kinds[member] for member in range(len(self.sizes)))

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """Every two groups."""
        return combinations(range(len(self.groups)), 2)

    @property
    def cells(self) -> int:
        """Entries of all tables between two groups."""
        return (sum(self.widths) ** 2 - sum(width * width for width in self.widths)) // 2

    @property
    def cost(self) -> float:
        """The cost of counting a row, in tables."""
        return comb(len(self.groups), 2) + self.cells / _NEAR_CELLS

    @cached_property
    def strides(self) -> tuple[int, ...]:
        """Of every category: what its next level adds to the joint code of its group."""
        strides = dict[int, int]()
        for group, shape in zip(self.groups, self.shapes, strict=True):
            strides |= {member: prod(shape[at + 1 :]) for at, member in enumerate(group)}
        return tuple(strides[member] for member in range(len(self.sizes)))

    def join(self, levels: Sequence[NDArray[np.int32]]) -> tuple[Codes, ...]:
        """Return the joint code of every group, from the level of every category."""
        merged = []
        for group in self.groups:
            code = np.zeros_like(levels[group[0]])
            for member in group:
                code += levels[member] * self.strides[member]
            merged.append(code)
        return tuple(merged)

    def split(self, codes: Sequence[Codes]) -> tuple[NDArray[np.int32], ...]:
        """Return the level of every category, from the joint codes of every group."""
        by_member = dict[int, NDArray[np.int32]]()
        for group, joint in enumerate(codes):
            for member, levels in self.levels(group):
                by_member[member] = levels.astype(np.int32)[joint]
        return tuple(by_member[member] for member in range(len(self.sizes)))

    def levels(self, group: int) -> list[tuple[int, NDArray[np.intp]]]:
        """Return for every member of a group: the member, and its level at every joint code."""
        places = np.unravel_index(np.arange(self.widths[group]), self.shapes[group])
        return list(zip(self.groups[group], places, strict=True))

    def margins(
        self, group: int, table: NDArray[np.int64]
    ) -> Iterator[tuple[int, NDArray[np.int64]]]:
        """Yield sums over the last axis of `table` (one per joint code) by each member's levels."""
        leading = table.shape[:-1]
        whole = table.reshape(*leading, *self.shapes[group])
        for place, member in enumerate(self.groups[group]):
            yield member, _sum_but(whole, (*range(len(leading)), len(leading) + place))

    def pair_margins(
        self, left: int, right: int, table: NDArray[np.int64]
    ) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Yield the table of every member of one group by every member of another."""
        first = len(self.groups[left])
        whole = table.reshape(*self.shapes[left], *self.shapes[right])
        for place, member in enumerate(self.groups[left]):
            for place2, member2 in enumerate(self.groups[right]):
                yield member, member2, _sum_but(whole, (place, first + place2))

    def inner_margins(
        self, group: int, counts: NDArray[np.int64]
    ) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """Yield the table of every two members of a group, from the counts of its codes."""
        whole = counts.reshape(self.shapes[group])
        for (place, member), (place2, member2) in combinations(enumerate(self.groups[group]), 2):
            yield member, member2, _sum_but(whole, (place, place2))


def _merged(sizes: Sequence[int], limit: int) -> tuple[tuple[int, ...], ...]:
    groups: list[tuple[int, tuple[int, ...]]]
    groups = sorted((size, (place,)) for place, size in enumerate(sizes))
    while len(groups) > 1 and groups[0][0] * groups[1][0] <= limit:
        (size, members), (size2, members2), *rest = groups
        groups = sorted([(size * size2, tuple(sorted(members + members2))), *rest])
    return tuple(members for _, members in groups)


def _sum_but(table: NDArray[Any], kept: tuple[int, ...]) -> NDArray[Any]:
    """Sum over all axes but these."""
    return np.asarray(table.sum(axis=tuple(set(range(table.ndim)) - set(kept)), dtype=np.int64))
