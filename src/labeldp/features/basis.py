"""`Basis`: functions of columns that join the design, for curves under the same guarantee.

Theory §12: any function of public features is a public feature. Every term turns whole numbers into
whole numbers, so its columns have the same bytes on every machine and engine, and are summed,
checked and published like any others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from labeldp.features.columns import check_fields
from labeldp.features.random_fourier import RandomFourierFeatures
from labeldp.features.terms import Interaction, LinearSpline, Term
from labeldp.io_util import Check, list_of


@dataclass(frozen=True)
class Basis:
    """The terms of a design, in the order of their columns."""

    hinges: tuple[LinearSpline, ...] = ()
    products: tuple[Interaction, ...] = ()
    waves: tuple[RandomFourierFeatures, ...] = ()

    @cached_property
    def terms(self) -> tuple[Term, ...]:
        return (*self.hinges, *self.products, *self.waves)

    def select(self, columns: Sequence[str]) -> Basis:
        """The terms that are made of these raw columns alone."""
        there = frozenset(columns)
        return Basis(
            tuple(term for term in self.hinges if term.owners <= there),
            tuple(term for term in self.products if term.owners <= there),
            tuple(term for term in self.waves if term.owners <= there),
        )

    def to_json(self) -> dict[str, Any]:
        """The terms as plain values; kinds of which there is none are left out."""
        kinds: dict[str, Any] = {
            "hinges": [term.to_json() for term in self.hinges],
            "products": [term.to_json() for term in self.products],
            "waves": [term.to_json() for term in self.waves],
        }
        return {name: terms for name, terms in kinds.items() if terms}

    @classmethod
    def from_json(cls, document: Any) -> Basis:
        """The terms of which this has the fields, strictly."""
        check_fields(document, {}, "features: the basis", _BASIS)
        return cls(
            tuple(map(LinearSpline.from_json, document.get("hinges", []))),
            tuple(map(Interaction.from_json, document.get("products", []))),
            tuple(map(RandomFourierFeatures.from_json, document.get("waves", []))),
        )


_TERMS = list_of(lambda item: isinstance(item, dict))
_BASIS: dict[str, Check] = {"hinges": _TERMS, "products": _TERMS, "waves": _TERMS}
