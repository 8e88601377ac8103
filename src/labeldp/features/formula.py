"""`Formula`: "price ~ spline(age) + sex*edu", read into the terms that a design can have.

The operators are those of Wilkinson and Rogers, as in R and patsy: `a + b`, `a:b` (the product),
`a*b` (both and their product), `-` takes out, `.` is every column (except those inside a `log()`),
brackets group, `1` and `0` are the constant and none. formulaic would bring pandas into every
installation, so formulas are read here, by recursive descent through this grammar:

    formula  = [name] "~" sum
    sum      = ["+" | "-"] crossed {("+" | "-") crossed}
    crossed  = products {"*" products}
    products = part {":" part}
    part     = "(" sum ")" | "0" | "1" | "." | "fourier" "(" [N] ")" | column
    column   = name | "spline" "(" column ["," K] ")" | ("log" | "C") "(" column ")"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NoReturn

from labeldp.data.columns import Column, short_name
from labeldp.data.source import Source
from labeldp.errors import InputError
from labeldp.features.basis import DEFAULT_COUNTS, FOURIER, SPLINES, checked_count

_NAME = re.compile(r"`[^`]+`|[^\W\d][\w.]*")
_TOKEN = re.compile(rf"{_NAME.pattern}|\d+|\S")
_END = "end of formula"
_FUNCTIONS = "spline(x), spline(x, K), log(x), C(x) and fourier(N)"


@dataclass(frozen=True, order=True)
class Atom:
    """A column in a term, and what the formula makes of it."""

    column: str
    log: bool = False
    knots: int = 0
    category: bool = False


Term = tuple[Atom, ...]
FormulaTerms = dict[Term, None]  # in the order in which they are written
_ONE: Term = (Atom(""),)  # the constant; no column has an empty name here. No constant, a 0, is ()


class Formula:
    """What a formula asks for of the columns of one table; without their names, of any.

    `columns` join the design, in the order of the table where it is known.
    """

    def __init__(self, text: str, names: Sequence[str] | None = None) -> None:
        self._text, self._names, self.waves = text, names, 0
        tokens: list[str] = _TOKEN.findall(text)
        self._logged = {
            name.strip("`")
            for function, bracket, name in zip(tokens, tokens[1:], tokens[2:], strict=False)
            if (function, bracket) == ("log", "(")
        }
        self._rest = [_END, *reversed(tokens)]
        self.label = None if self._rest[-1] == "~" else self._name("a label and ~")
        self._expect("~")
        try:
            every = self._sum({_ONE: None})
        except RecursionError:
            self._refuse("its brackets are nested too deeply; write fewer")
        self._expect(_END)

        self.intercept = _ONE in every
        terms = [term for term in every if term != _ONE]
        atoms = [atom for term in terms for atom in term]
        for name in {atom.column: None for atom in atoms}:  # a column stands in the design once
            same = [atom for atom in atoms if atom.column == name]
            logs, knots = {atom.log for atom in same}, {atom.knots for atom in same} - {0}
            is_category = any(atom.category for atom in same)
            if len(logs) > 1 or len(knots) > 1 or (is_category and (knots or True in logs)):
                raise InputError(f"`formula` has {name!r} in two forms, as log(x) + x; choose one")
        self.log = tuple(dict.fromkeys(atom.column for atom in atoms if atom.log))
        self.categorical = {atom.column for atom in atoms if atom.category}
        self.knots = {atom.column: atom.knots for atom in atoms if atom.knots}
        self.pairs = tuple((term[0].column, term[1].column) for term in terms if len(term) == 2)
        columns = list(dict.fromkeys(term[0].column for term in terms if len(term) == 1))
        for left, right in self.pairs:
            if left not in columns or right not in columns:
                raise InputError(
                    f"`formula` has {left}:{right} without {right if left in columns else left}; "
                    f"columns join the design with their products: write {left}*{right}"
                )
        if names is not None:
            columns = [name for name in names if name in columns]
            if not columns:
                raise InputError("`formula` leaves no column to regress on; name one")
        self.columns = tuple(columns)

    def select(self, source: Source) -> Source:
        """Return the source with the columns of the formula alone, of the kinds it declares."""
        if None not in (self.label, source.label) and self.label != source.label:
            raise InputError(
                f"`formula` has the label {self.label!r} and `label` is {source.label!r}; they "
                f"must agree"
            )
        columns, bent = list[Column](), {*self.knots, *self.log}
        for column in source.columns:
            if column.name in self.categorical:
                column = replace(column, kind="categorical", declared=True)
            elif column.name in bent:
                if column.kind == "categorical":
                    raise InputError(
                        f"`formula` bends {column.name!r}, which is a category; leave it so"
                    )
                column = replace(column, kind="numeric", declared=True)
            if column.name in self.columns:
                columns.append(replace(column, wanted=True))
        return replace(source, columns=tuple(columns))

    def _sum(self, terms: FormulaTerms) -> FormulaTerms:
        """Return the terms after those of a sum have joined or left them."""
        sign = self._rest.pop() if self._rest[-1] in ("+", "-") else "+"
        while sign:
            others = self._crossed()
            if sign == "-":  # takes out the same terms, and every form of a plain column
                plain = {term[0].column for term in others if len(term) == 1}
                others |= {t: None for t in terms if len(t) == 1 and t[0].column in plain}
                terms = {term: None for term in terms if term not in others}
            else:
                terms = {term: None for term in terms | others if term}
                if () in others:
                    terms.pop(_ONE, None)
            sign = self._rest.pop() if self._rest[-1] in ("+", "-") else ""
        return terms

    def _crossed(self) -> FormulaTerms:
        terms = self._products()
        while self._take("*"):
            others = self._products()
            terms |= others | self._pairs(terms, others)
        return terms

    def _products(self) -> FormulaTerms:
        terms = self._part()
        while self._take(":"):
            terms = self._pairs(terms, self._part())
        return terms

    def _pairs(self, ours: FormulaTerms, others: FormulaTerms) -> FormulaTerms:
        """Return the products of every two terms."""
        terms = FormulaTerms()
        for left, right in product(ours, others):
            term = tuple(sorted({*left, *right}))
            columns = {atom.column for atom in term} - {""}
            bends = len(term) == 2 and any(atom.knots for atom in term)
            if () in (left, right) or len(term) > 2 or len(columns) < len(term) or bends:
                self._refuse(
                    "a product is of two different columns, neither splines nor the constant: "
                    "write spline(x) + x*z"
                )
            terms[term] = None
        return terms

    def _part(self) -> FormulaTerms:
        if self._take("("):
            terms = self._sum({})
            self._expect(")")
            return terms
        if self._take("0"):
            return {(): None}
        if self._take("1"):
            return {_ONE: None}
        if self._take("."):
            others_out = {self.label, *self._logged}
            return {(Atom(name),): None for name in self._names or () if name not in others_out}
        if self._rest[-2:] == ["(", "fourier"]:
            del self._rest[-2:]
            self.waves = self._count(FOURIER)
            return {}
        return {(self._column(),): None}

    def _column(self) -> Atom:
        """Read a column, or a function of one."""
        name = self._name("a column")
        if not self._take("("):
            if self._names is not None and name not in self._names:
                raise InputError(
                    f"`formula` names {name!r}, which is no feature column; correct it, or put "
                    f"other names in backticks"
                )
            return Atom(name)
        if name not in ("spline", "log", "C"):
            self._refuse(f"there is no {name}(); there are {_FUNCTIONS}")
        atom = self._column()
        if atom != Atom(atom.column, log=atom.log and name == "spline"):
            self._refuse(f"{name}() takes a column; there are {_FUNCTIONS}")
        if name == "spline":
            self._take(",")
            return replace(atom, knots=self._count(SPLINES))
        self._expect(")")
        return replace(atom, log=name == "log", category=name == "C")

    def _count(self, part: str) -> int:
        """Read how many knots or waves there shall be, if that is said, and the bracket."""
        number = DEFAULT_COUNTS[part]
        if self._rest[-1].isdecimal():
            number = checked_count("formula", part, int(self._rest.pop()))
        self._expect(")")
        return number

    def _name(self, what: str) -> str:
        if not _NAME.fullmatch(self._rest[-1]):
            self._expect(what)
        return self._rest.pop().strip("`")

    def _take(self, token: str) -> bool:
        """Skip a token if it comes next, and return whether it did."""
        if self._rest[-1] != token:
            return False
        self._rest.pop()
        return True

    def _expect(self, token: str) -> None:
        if not self._take(token):
            self._refuse(
                f"it has {self._rest[-1]!r} where {token} should stand; write y ~ x + spline(z), "
                f"other names in backticks"
            )

    def _refuse(self, why: str) -> NoReturn:
        raise InputError(f"`formula` is {short_name(self._text)!r}: {why}")
