"""`Formula`: "price ~ spline(age) + sex*edu", read into the terms that a design can have.

The operators are those of Wilkinson and Rogers, as in R and patsy: `a + b`, `a:b` (the product),
`a*b` (both and their product), `-` takes out, `.` is every other column, `1` and `0` are the
constant and none. formulaic would bring pandas into every installation, so formulas are read here:

    formula = [name] "~" ["+" | "-"] term {("+" | "-") term}
    term    = "0" | "1" | "." | "fourier" "(" [N] ")" | column [("*" | ":") column]
    column  = name | "spline" "(" column ["," K] ")" | ("log" | "C") "(" column ")"
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from labeldp.data.columns import Column, short_name
from labeldp.data.source import Source
from labeldp.errors import InputError
from labeldp.features.basis import DEFAULT_COUNTS, FOURIER, SPLINES, checked_count

_NAME = re.compile(r"`[^`]+`|[^\W\d][\w.]*")
_TOKEN = re.compile(rf"{_NAME.pattern}|\d+|\S")
_END = "end of formula"
_FUNCTIONS = "spline(x), spline(x, K), log(x), C(x) and fourier(N)"


@dataclass(frozen=True)
class Factor:
    """A column in a term, and what the formula makes of it."""

    column: str
    form: str = ""  # "log" or "C"
    knots: int = 0


class Formula:
    """What a formula asks for of the columns of one table; without their names, of any.

    `columns` join the design, in the order of the table where it is known.
    """

    def __init__(self, text: str, names: Sequence[str] | None = None) -> None:
        self._text, self._names = text, names
        self.intercept, self.waves, self._has_every = True, 0, False
        # Terms of one or two columns; what is taken out is so in every form.
        self._terms, self._taken_out = list[list[Factor]](), list[set[str]]()
        self._rest: list[str] = [_END, *reversed(_TOKEN.findall(text))]
        self.label = None if self._rest[-1] == "~" else self._name("a label and ~")
        self._expect("~")
        self._read_term(self._rest.pop() if self._rest[-1] in ("+", "-") else "+")
        while self._rest[-1] in ("+", "-"):
            self._read_term(self._rest.pop())
        self._expect(_END)

        terms = [t for t in self._terms if {factor.column for factor in t} not in self._taken_out]
        factors = list(dict.fromkeys(factor for term in terms for factor in term))
        self.knots = {factor.column: factor.knots for factor in factors if factor.knots}
        forms = {factor.column: factor.form for factor in factors}
        for factor in factors:  # a column stands in the design once
            name, knots = factor.column, self.knots.get(factor.column, 0)
            if factor.form != forms[name] or factor.knots not in (0, knots):
                raise InputError(f"`formula` has {name!r} in two forms, as log(x) + x; choose one")
        self.log = tuple(name for name, form in forms.items() if form == "log")
        self.categorical = {name for name, form in forms.items() if form == "C"}
        self.pairs = tuple((term[0].column, term[1].column) for term in terms if len(term) == 2)
        columns = list(dict.fromkeys(term[0].column for term in terms if len(term) == 1))
        if self._has_every:
            out = [{self.label}, *self._taken_out]
            columns += [name for name in names or () if {name} not in out and name not in columns]
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

    def _read_term(self, sign: str) -> None:
        """Let what comes next join the design or, after a minus, be taken out."""
        if self._rest[-1] in ("0", "1"):
            self.intercept = (self._rest.pop() == "1") == (sign == "+")
            return
        if self._take("."):
            self._has_every = True
            return
        if self._rest[-2:] == ["(", "fourier"]:
            del self._rest[-2:]
            self.waves = self._count(FOURIER)
            return
        term, is_crossed = [self._column()], self._rest[-1] == "*"
        while self._take("*") or self._take(":"):
            term.append(self._column())
            bends = any(factor.knots for factor in term)
            if len(term) > 2 or term[0].column == term[1].column or bends:
                self._refuse(
                    "a product is of two different columns that are no splines: write "
                    "spline(x) + x*z"
                )
        terms = [*([factor] for factor in term), term] if is_crossed else [term]
        if sign == "+":
            self._terms += terms
        else:
            self._taken_out += [{factor.column for factor in term} for term in terms]

    def _column(self, functions: Sequence[str] = ("spline", "log", "C")) -> Factor:
        """Read a column, or one of these functions of one."""
        name = self._name("a column")
        if not self._take("("):
            if self._names is not None and name not in self._names:
                raise InputError(
                    f"`formula` names {name!r}, which is no feature column; correct it, or put "
                    f"other names in backticks"
                )
            return Factor(name)
        if name not in functions:
            self._refuse(f"there is no {name}() there; there are {_FUNCTIONS}")
        if name == "spline":
            factor = self._column(["log"])
            self._take(",")
            return replace(factor, knots=self._count(SPLINES))
        factor = self._column([])
        self._expect(")")
        return replace(factor, form=name)

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
