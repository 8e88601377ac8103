"""`Basis`: functions of columns that join the design, for curves under the same guarantee.

Theory §12: any function of public features is a public feature. Every term (`terms.py`,
`random_fourier.py`) turns whole numbers into whole numbers, so its columns have the same bytes on
every machine and engine, and are summed, checked and published like any others.

In features.json splines, interactions and random Fourier features are called hinges, products and
waves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.errors import InputError
from labeldp.features.columns import check_fields
from labeldp.features.random_fourier import RandomFourierFeatures
from labeldp.features.terms import Interaction, LinearSpline, Numbers, RowValues, Term
from labeldp.io_util import Check, list_of
from labeldp.kernels import Codes

if TYPE_CHECKING:
    from labeldp.features.feature_map import FeatureMap

Pair = tuple[str, str]
LINEAR, AUTO, ALL = "linear", "auto", "all"
SPLINES, FOURIER = "splines", "fourier"
DEFAULT_COUNTS = {SPLINES: 10, FOURIER: 100}
"""Knots and waves where no number is given."""
PAIR_COLUMNS = 300
_MOST = {SPLINES: 1000, FOURIER: 4000}
_FORMS = "linear, splines, splines:KNOTS, splines+fourier:N or auto"


@dataclass(frozen=True)
class BasisSpec:
    """Which basis is asked for: how many knots and waves, which pairs of columns."""

    knots: int = 0
    waves: int = 0
    pairs: tuple[Pair, ...] = ()
    all_pairs: bool = False
    """All pairs besides, as far as the columns allowed suffice."""
    columns: int = PAIR_COLUMNS
    """At most so many for all pairs together."""
    own_knots: tuple[tuple[str, int], ...] = ()
    """Columns with knots of their own number."""
    argument: str = "interactions"
    """Where the pairs are named."""

    @classmethod
    def of(cls, basis: str, interactions: Iterable[str], columns: int) -> BasisSpec:
        """Read what people write: "splines+fourier:100", and "age:sex" or "all"."""
        if basis == AUTO:
            raise InputError("`basis` auto is chosen by `plan`; name one here")
        parts = dict[str, int]()
        for text in basis.split("+"):
            name, _, count = text.strip().partition(":")
            if name == LINEAR and not count:
                continue
            if name not in DEFAULT_COUNTS or name in parts or not (count or "1").isdigit():
                raise InputError(f"`basis` is {basis!r}; write {_FORMS}")
            parts[name] = checked_count("basis", name, count or str(DEFAULT_COUNTS[name]))
        texts = [text.strip() for text in interactions]
        pairs = tuple(_pair(text) for text in texts if text != ALL)
        return cls(parts.get(SPLINES, 0), parts.get(FOURIER, 0), pairs, ALL in texts, columns)

    @property
    def empty(self) -> bool:
        return not (self.knots or self.waves or self.pairs or self.all_pairs or self.own_knots)


def checked_count(argument: str, part: str, text: str) -> int:
    """Return how many, as written; refuse what makes no sense."""
    if not 1 <= int(text) <= _MOST[part]:
        raise InputError(f"`{argument}` asks for {part}:{text}; take 1 to {_MOST[part]:,}")
    return int(text)


def _pair(text: str) -> Pair:
    left, _, right = text.partition(":")
    if not left.strip() or not right.strip() or left.strip() == right.strip():
        raise InputError(
            f"`interactions` holds {text!r}; write pairs of different columns, age:sex, or {ALL}"
        )
    return left.strip(), right.strip()


@dataclass(frozen=True)
class Basis:
    """The terms of a design, in the order of their columns."""

    splines: tuple[LinearSpline, ...] = ()
    interactions: tuple[Interaction, ...] = ()
    fourier: tuple[RandomFourierFeatures, ...] = ()

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        return (*self.splines, *self.interactions, *self.fourier)

    def select(self, columns: Sequence[str]) -> Basis:
        """Return the terms that are made of these raw columns alone."""
        there = frozenset(columns)
        return Basis(
            tuple(term for term in self.splines if term.owners <= there),
            tuple(term for term in self.interactions if term.owners <= there),
            tuple(term for term in self.fourier if term.owners <= there),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the terms as plain values; kinds of which there is none are left out."""
        kinds: dict[str, Any] = {
            "hinges": [term.to_json() for term in self.splines],
            "products": [term.to_json() for term in self.interactions],
            "waves": [term.to_json() for term in self.fourier],
        }
        return {name: terms for name, terms in kinds.items() if terms}

    @classmethod
    def from_json(cls, document: Any) -> Basis:
        """Read what `to_json` wrote, strictly."""
        check_fields(document, {}, "features: the basis", _BASIS)
        return cls(
            tuple(map(LinearSpline.from_json, document.get("hinges", []))),
            tuple(map(Interaction.from_json, document.get("products", []))),
            tuple(map(RandomFourierFeatures.from_json, document.get("waves", []))),
        )


class BasisWriter:
    """Writes the columns of a basis beside those that they are made of."""

    def __init__(self, features: FeatureMap) -> None:
        self._places, at = dict[str, int](), 0
        for column in features.numeric:
            self._places[column.name] = at
            at += len(column.design_names)
        joint = features.joint_codes
        self._groups = {
            features.categorical[member].name: (group, levels.astype(np.int32))
            for group in range(len(joint.groups))
            for member, levels in joint.levels(group)
        }
        self._terms, fitted = [], features.fitted
        for term, columns in features.derived:
            self._terms.append((term.writer(fitted), slice(at, at + len(columns))))
            at += len(columns)

    def __call__(self, numbers: Numbers, codes: Sequence[Codes]) -> None:
        """Fill the last columns of `numbers` from the first ones and the joint codes."""
        rows = RowValues(numbers, codes, self._places, self._groups)
        for write, place in self._terms:
            write(rows, numbers[:, place])


_TERMS = list_of(lambda item: isinstance(item, dict))
_BASIS: dict[str, Check] = {"hinges": _TERMS, "products": _TERMS, "waves": _TERMS}
