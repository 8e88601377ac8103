"""`Formula`: "price ~ spline(age) + sex*edu", read into the terms that a design can have.

The operators are those of Wilkinson and Rogers, as in R and patsy: `a + b`, `a:b` (the product),
`a*b` (both and their product), `-` takes out, `.` is every column (except those inside a `log()`),
brackets group, `1` and `0` are the constant and none. Functions: spline, log, C, fourier.

Python's own parser reads the terms: its `+ - * **` have the precedence of `+ - * :`, and names are
replaced by placeholders first. formulaic would bring pandas into every installation.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NoReturn

from labeldp.data.columns import Column
from labeldp.data.options import short_name
from labeldp.data.source import Source
from labeldp.errors import InputError
from labeldp.features.basis import DEFAULT_COUNTS, FOURIER, SPLINES, Pair, checked_count

_TOKEN = re.compile(r"(`[^`]+`|[^\W\d][\w.]*)|\d+|[-+*:~().,]|\s+|(.)")
_KNOWN = "spline(x), spline(x, K), log(x), C(x) and fourier(N)"
_EVERY = "_every"


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
_ONE: Term = (Atom(""),)
"""The constant; no column has an empty name here. No constant, a 0, is ()."""


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
        parser = _Parser(text, names)
        terms = [term for term in parser.terms if term != _ONE]
        atoms = [atom for term in terms for atom in term]
        if any(atom.column == parser.label for atom in atoms):
            raise InputError(f"`formula` has the label {parser.label!r} on both sides; take it out")
        for name in {atom.column: None for atom in atoms}:  # a column stands in the design once
            same = [atom for atom in atoms if atom.column == name]
            logs, knots = {atom.log for atom in same}, {atom.knots for atom in same} - {0}
            is_category = any(atom.category for atom in same)
            if len(logs) > 1 or len(knots) > 1 or (is_category and (knots or True in logs)):
                raise InputError(f"`formula` has {name!r} in two forms, as log(x) + x; choose one")
        columns = list(dict.fromkeys(term[0].column for term in terms if len(term) == 1))
        pairs = tuple((term[0].column, term[1].column) for term in terms if len(term) == 2)
        for left, right in pairs:
            if left not in columns or right not in columns:
                raise InputError(
                    f"`formula` has {left}:{right} without {right if left in columns else left}; "
                    f"columns join the design with their products: write {left}*{right}"
                )
        if names is not None:
            columns = [name for name in names if name in columns]
            if not columns:
                raise InputError("`formula` leaves no column to regress on; name one")
        return cls(
            parser.label,
            tuple(columns),
            tuple(dict.fromkeys(atom.column for atom in atoms if atom.log)),
            tuple(dict.fromkeys(atom.column for atom in atoms if atom.category)),
            tuple({atom.column: atom.knots for atom in atoms if atom.knots}.items()),
            pairs,
            parser.waves,
            _ONE in parser.terms,
        )

    def select(self, source: Source) -> Source:
        """Return the source with the columns of the formula alone, of the kinds it declares."""
        if None not in (self.label, source.label) and self.label != source.label:
            raise InputError(
                f"`formula` has the label {self.label!r} and `label` is {source.label!r}; they "
                f"must agree"
            )
        columns, bent = list[Column](), {*dict(self.knots), *self.log}
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


class _Parser:
    """Reads the label, the terms and the number of waves of a formula."""

    def __init__(self, text: str, names: Sequence[str] | None) -> None:
        self._text, self._names, self.waves = text, names, 0
        self._placeholders: dict[str, str] = {}
        code = ""
        for token in _TOKEN.finditer(text):
            if token[2]:
                raise InputError(
                    f"`formula` holds {token[2]!r}, which is no sign of it; there are + - * : . "
                    f"( ) and {_KNOWN}; other names go in backticks"
                )
            if token[1]:
                placeholder = f"_{len(self._placeholders)}"
                self._placeholders[placeholder] = token[1].strip("`")
                code += f" {placeholder} "
            elif token[0].isspace():
                code += " "
            else:
                code += {":": " ** ", "*": " * ", ".": f" {_EVERY} "}.get(token[0], token[0])
        label, tilde, right = code.partition("~")
        self.label = self._placeholders.get(label.strip())
        if not tilde or (label.strip() and self.label is None):
            self._refuse("write a label as it is, ~ and terms: y ~ x + z")
        try:
            tree = ast.parse(right.strip(), mode="eval").body
        except (SyntaxError, RecursionError, MemoryError):
            self._refuse("it cannot be read; write a label, ~ and terms: y ~ x + spline(z)")
        calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and node.args]
        self._logged = {
            self._column(call.args[0]) for call in calls if self._column(call.func) == "log"
        }
        self.terms = self._sum(tree, {_ONE: None})

    def _sum(self, node: ast.expr, terms: FormulaTerms) -> FormulaTerms:
        """Return the terms after those of a sum have joined or left them."""
        signed = []
        while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
            signed.append((isinstance(node.op, ast.Sub), node.right))
            node = node.left
        match node:
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                signed.append((isinstance(node.op, ast.USub), node.operand))
            case _:
                signed.append((False, node))
        for minus, part in reversed(signed):
            others = self._terms(part)
            if minus:  # takes out the same terms, and every form of a plain column
                plain = {term[0].column for term in others if len(term) == 1}
                terms = {
                    term: None
                    for term in terms
                    if term not in others and not (len(term) == 1 and term[0].column in plain)
                }
                continue
            if () in others:
                terms.pop(_ONE, None)
            terms |= {term: None for term in others if term}
        return terms

    def _terms(self, node: ast.expr) -> FormulaTerms:
        """Return the terms of a part of the formula."""
        match node:
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                return self._sum(node, {})
            case ast.BinOp(op=ast.Mult() | ast.Pow()):
                ours, others = self._terms(node.left), self._terms(node.right)
                crossed = {
                    self._product(left, right): None for left, right in product(ours, others)
                }
                return ours | others | crossed if isinstance(node.op, ast.Mult) else crossed
            case ast.Constant(value=0 | 1):
                return {_ONE if node.value else (): None}
            case ast.Name(id=name) if name == _EVERY:
                others_out = {self.label, *self._logged}
                return {(Atom(name),): None for name in self._names or () if name not in others_out}
            case ast.Call() if self._column(node.func) == "fourier":
                self.waves = self._count(FOURIER, node.args)
                return {}
        return {(self._atom(node),): None}

    def _product(self, left: Term, right: Term) -> Term:
        term = tuple(sorted({*left, *right}))
        columns = {atom.column for atom in term}
        is_plain = len(term) == 1 or (len(term) == 2 and not any(atom.knots for atom in term))
        if not is_plain or len(columns) < len(term) or () in (left, right) or "" in columns:
            self._refuse(
                "a product is of two different columns, neither splines nor the constant: write "
                "spline(x) + x*z"
            )
        return term

    def _atom(self, node: ast.expr) -> Atom:
        """Return a column, or a function of one."""
        if not isinstance(node, ast.Call):
            name = self._column(node)
            if name is None:
                self._refuse("a term is no column; write columns, their products and functions")
            if self._names is not None and name not in self._names:
                raise InputError(
                    f"`formula` names {name!r}, which is no feature column; correct it, or put "
                    f"other names in backticks"
                )
            return Atom(name)
        function, arguments = self._column(node.func), node.args
        if function not in ("spline", "log", "C"):
            self._refuse(f"there is no {function}(); there are {_KNOWN}")
        atom = self._atom(arguments[0]) if arguments else Atom("", category=True)
        if function == "spline" and not atom.category and not atom.knots:
            return replace(atom, knots=self._count(SPLINES, arguments[1:]))
        if len(arguments) != 1 or isinstance(arguments[0], ast.Call):
            self._refuse(f"{function}() takes a column; there are {_KNOWN}")
        return replace(atom, log=function == "log", category=function == "C")

    def _count(self, part: str, arguments: Sequence[ast.expr]) -> int:
        """Return how many knots or waves a function is called with."""
        number = DEFAULT_COUNTS[part]
        if arguments:
            value = arguments[0].value if isinstance(arguments[0], ast.Constant) else None
            if not isinstance(value, int) or len(arguments) > 1:
                self._refuse(f"{part} take one number; there are {_KNOWN}")
            number = value
        return checked_count("formula", part, number)

    def _column(self, node: ast.expr) -> str | None:
        return self._placeholders.get(node.id) if isinstance(node, ast.Name) else None

    def _refuse(self, why: str) -> NoReturn:
        raise InputError(f"`formula` is {short_name(self._text)!r}: {why}")
