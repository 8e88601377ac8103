"""`Formula`: "price ~ spline(age) + sex*edu", read into the terms that a design can have.

The operators are those of Wilkinson and Rogers, as in R and patsy: `a + b`, `a:b` (the product),
`a*b` (both and their product), `-` takes out, `.` is every column (except those inside a `log()`),
brackets group, `1` and `0` are the constant and none. Functions: spline, log, C, fourier.

Why not formulaic: it depends on pandas, which labeldp does not need otherwise, and only its parser
could be used, since a term here stands for whole numbers on public grids (`terms.py`), not for
doubles that a library computes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NoReturn

from labeldp.data.columns import Column, short_name
from labeldp.data.source import Source
from labeldp.errors import InputError
from labeldp.features.basis import DEFAULT_COUNTS, FOURIER, SPLINES, BasisSpec, Pair, checked_count

_TOKEN = re.compile(r"\s*(?:(`[^`]+`)|([^\W\d][\w.]*)|(\d+)|([-+*:~().,]))")
_KNOWN = "spline(x), spline(x, K), log(x), C(x) and fourier(N)"
_ONE = "1"
"""The constant, among terms; no column can be called so without backticks."""
_DEEPEST = 50
"""Nested parentheses."""


@dataclass(frozen=True, order=True)
class Atom:
    """A column in a term, and what the formula makes of it."""

    column: str
    log: bool = False
    knots: int = 0
    category: bool = False


Term = tuple[Atom, ...]
FormulaTerms = dict[Term, None]
"""In the order in which they are written."""


@dataclass(frozen=True)
class Formula:
    """What a formula asks for of the columns of one table."""

    label: str | None
    columns: tuple[str, ...]
    """That join the design, in the order of the table where it is known."""
    log: tuple[str, ...]
    categorical: tuple[str, ...]
    knots: tuple[tuple[str, int], ...]
    pairs: tuple[Pair, ...]
    waves: int
    intercept: bool

    @classmethod
    def of(cls, text: str, names: Sequence[str] | None = None) -> Formula:
        """Parse a formula for a table of these columns; without them only check its grammar."""
        label, terms, waves = _Parser(text, names).formula()
        intercept = (Atom(_ONE),) in terms
        atoms = [atom for term in terms for atom in term if atom.column != _ONE]
        _check_forms(atoms)
        columns = dict.fromkeys(
            term[0].column for term in terms if len(term) == 1 and term[0].column != _ONE
        )
        order = list(columns) if names is None else [name for name in names if name in columns]
        pairs = tuple((a.column, b.column) for a, b in (t for t in terms if len(t) == 2))
        _check_main_effects(pairs, columns)
        if names is not None and not columns:
            raise InputError("`formula` leaves no column to regress on; name one")
        return cls(
            label,
            tuple(order),
            tuple(dict.fromkeys(atom.column for atom in atoms if atom.log)),
            tuple(dict.fromkeys(atom.column for atom in atoms if atom.category)),
            tuple({atom.column: atom.knots for atom in atoms if atom.knots}.items()),
            pairs,
            waves,
            intercept,
        )

    def narrowed(self, source: Source) -> Source:
        """Return the source with the columns of the formula alone, of the kinds it declares."""
        if None not in (self.label, source.label) and self.label != source.label:
            raise InputError(
                f"`formula` has the label {self.label!r} and `label` is {source.label!r}; they "
                f"must agree"
            )
        kept = (self._declared(each) for each in source.columns if each.name in self.columns)
        return replace(source, columns=tuple(kept))

    def _declared(self, column: Column) -> Column:
        column = replace(column, wanted=True)
        if column.name in self.categorical:
            return replace(column, kind="categorical", declared=True)
        if column.name not in dict(self.knots) and column.name not in self.log:
            return column
        if column.kind == "categorical":
            raise InputError(f"`formula` bends {column.name!r}, which is a category; leave it so")
        return replace(column, kind="numeric", declared=True)

    def basis_spec(self, columns: int) -> BasisSpec:
        """Return the basis that the formula asks for."""
        return BasisSpec(0, self.waves, self.pairs, False, columns, self.knots, "formula")


def formula_label(text: str) -> str | None:
    """Return the label that a formula names; refuse what is no formula."""
    return Formula.of(text).label


def named_label(data: Any, formula: str | None) -> str | None:
    """Return the label that a formula names, for a table of which no other was named."""
    return None if formula is None or isinstance(data, Source) else formula_label(formula)


class _Parser:
    """A recursive-descent parser.

    formula = label "~" sum           product = cross { "*" cross }
    sum     = ["-"] product { ("+" | "-") product }
    cross   = factor { ":" factor }   factor  = "(" sum ")" | "." | "0" | "1" | name | call
    """

    def __init__(self, text: str, names: Sequence[str] | None) -> None:
        self._text, self._names, self._waves, self._depth = text, names, 0, 0
        self._tokens = [*_tokens(text), ""]
        ahead = zip(self._tokens, self._tokens[1:], self._tokens[2:], strict=False)
        self._logged = [name.strip("`") for log, sign, name in ahead if (log, sign) == ("log", "(")]

    def formula(self) -> tuple[str | None, FormulaTerms, int]:
        label = None if self._tokens[0] == "~" else self._name("the label")
        if self._take("(") or not self._take("~"):
            raise InputError(
                f"`formula` is {short_name(self._text)!r}; write a label as it is, ~ and terms: "
                f"y ~ x + z"
            )
        terms = self._sum(FormulaTerms({(Atom(_ONE),): None}), label)
        if self._tokens[0]:
            self._refuse(f"{self._tokens[0]!r} stands where nothing can")
        if any(atom.column == label for term in terms for atom in term):
            raise InputError(f"`formula` has the label {label!r} on both sides; take it out")
        return label, terms, self._waves

    def _sum(self, terms: FormulaTerms, label: str | None) -> FormulaTerms:
        minus = self._take("-")
        if not minus:
            self._take("+")
        while True:
            product = self._products(label)
            if minus:
                terms = FormulaTerms({t: None for t in terms if not _is_removed(t, product)})
            elif () in product:
                terms.pop((Atom(_ONE),), None)
            terms = terms if minus else FormulaTerms({**terms, **{t: None for t in product if t}})
            if self._tokens[0] not in ("+", "-"):
                return terms
            minus = self._tokens.pop(0) == "-"

    def _products(self, label: str | None) -> FormulaTerms:
        terms = self._crossed(label)
        while self._take("*"):
            others = self._crossed(label)
            terms = FormulaTerms({**terms, **others, **self._cross(terms, others)})
        return terms

    def _crossed(self, label: str | None) -> FormulaTerms:
        terms = self._factor(label)
        while self._take(":"):
            terms = self._cross(terms, self._factor(label))
        return terms

    def _cross(self, ours: FormulaTerms, others: FormulaTerms) -> FormulaTerms:
        crossed = FormulaTerms()
        for left, right in product(ours, others):
            term = tuple(sorted({*left, *right}))
            if len(term) > 2:
                self._refuse("products are of two columns, not of more")
            if any(atom.column == _ONE for atom in term) or not left or not right:
                self._refuse("the constant is no factor of a product")
            if len({atom.column for atom in term}) < len(term):
                self._refuse("a product is of two different columns")
            if len(term) == 2 and any(atom.knots for atom in term):
                self._refuse("splines are no factors: write spline(x) + x*z, or spline(x) + z")
            crossed[term] = None
        return crossed

    def _factor(self, label: str | None) -> FormulaTerms:
        if self._take("("):
            self._depth += 1
            if self._depth > _DEEPEST:
                self._refuse(f"more than {_DEEPEST} parentheses stand in each other; take some out")
            terms = self._sum(FormulaTerms(), label)
            self._close()
            self._depth -= 1
            return terms
        if self._take("."):
            others = (name for name in self._names or () if name not in (label, *self._logged))
            return FormulaTerms({(Atom(name),): None for name in others})
        if self._tokens[0] in ("0", "1"):
            return FormulaTerms({(Atom(_ONE),) if self._tokens.pop(0) == "1" else (): None})
        name = self._name("a column")
        return self._call(name) if self._take("(") else FormulaTerms({(self._atom(name),): None})

    def _call(self, function: str) -> FormulaTerms:
        if function == "fourier":
            default = DEFAULT_COUNTS[FOURIER]
            self._waves = default if self._tokens[0] == ")" else self._count(FOURIER)
            self._close()
            return FormulaTerms()
        return FormulaTerms({(self._transformed(function),): None})

    def _transformed(self, function: str) -> Atom:
        """Parse the arguments of a function of one column, and the closing bracket."""
        if function not in ("spline", "log", "C"):
            self._refuse(f"there is no {function}(); there are {_KNOWN}")
        name = self._name(f"a column in {function}()")
        inner = function == "spline" and name == "log" and self._take("(")
        atom = self._transformed("log") if inner else self._atom(name)
        if function == "spline":
            knots = self._count(SPLINES) if self._take(",") else DEFAULT_COUNTS[SPLINES]
            atom = replace(atom, knots=knots)
        self._close()
        return replace(atom, log=atom.log or function == "log", category=function == "C")

    def _count(self, part: str) -> int:
        text = self._tokens.pop(0)
        if not text.isdigit():
            self._refuse(f"{text!r} stands where a number is needed")
        return checked_count("formula", part, text)

    def _atom(self, name: str) -> Atom:
        if self._names is not None and name not in self._names:
            raise InputError(
                f"`formula` names {name!r}, which is no feature column; correct it, or put other "
                f"names in backticks"
            )
        return Atom(name)

    def _name(self, what: str) -> str:
        token = self._tokens.pop(0)
        if token.startswith("`"):
            return token.strip("`")
        if not re.match(r"[^\W\d]", token):
            self._refuse(f"{what} is missing" if not token else f"{token!r} stands for {what}")
        return token

    def _take(self, sign: str) -> bool:
        if self._tokens[0] != sign:
            return False
        self._tokens.pop(0)
        return True

    def _close(self) -> None:
        if not self._take(")"):
            self._refuse("')' is missing")

    def _refuse(self, why: str) -> NoReturn:
        raise InputError(f"`formula` is {short_name(self._text)!r}: {why}")


def _tokens(text: str) -> Iterator[str]:
    place, end = 0, len(text.rstrip())
    while place < end:
        match = _TOKEN.match(text, place)
        if match is None:
            sign = text[place:].strip()[0]
            raise InputError(
                f"`formula` holds {sign!r}, which is no sign of it; there are + - * : . ( ) and "
                f"{_KNOWN}; other names go in backticks"
            )
        yield match.group(match.lastindex or 0)
        place = match.end()


def _is_removed(term: Term, gone: Iterable[Term]) -> bool:
    """Return whether `-` takes a term out: the same term, or any form of a plain column."""
    plain = {each[0].column for each in gone if len(each) == 1}
    return term in gone or (len(term) == 1 and term[0].column in plain)


def _check_forms(atoms: Sequence[Atom]) -> None:
    """Refuse a column in two forms: it stands in the design once."""
    for atom in atoms:
        same = [other for other in atoms if other.column == atom.column]
        if any(other.log != atom.log for other in same):
            raise InputError(
                f"`formula` has {atom.column!r} with log() and without; choose one for all terms"
            )
        if len({other.knots for other in same if other.knots}) > 1:
            raise InputError(f"`formula` bends {atom.column!r} in two ways; choose one")
        bent = any(other.knots or other.log for other in same)
        if bent and any(other.category for other in same):
            raise InputError(
                f"`formula` has {atom.column!r} as a category and as a number; choose one"
            )


def _check_main_effects(pairs: Sequence[Pair], columns: Iterable[str]) -> None:
    """Refuse products without the columns that they are of."""
    for left, right in pairs:
        for name in (left, right):
            if name not in columns:
                raise InputError(
                    f"`formula` has {left}:{right} without {name}; columns join the design with "
                    f"their products: write {left}*{right}"
                )
