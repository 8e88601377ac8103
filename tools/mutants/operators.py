"""Small wrong changes of a module: what a slip of the pen would have made of it.

A mutation replaces one expression or statement. It is named by the function and the words of the
line it stands in, what stood there and what stands there now, not by a line number, so that a list
of known ones survives edits elsewhere in the file.
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

Change = tuple[str, ast.AST]
"""The operator's name, and what stands there instead."""


@dataclass(frozen=True)
class Mutation:
    """One wrong change; `start` and `end` are places in the file's bytes."""

    path: str
    inside: str
    operator: str
    code: str
    before: str
    after: str
    line: int
    start: int
    end: int

    def apply(self, source: bytes) -> bytes:
        """The file with the change in it."""
        return source[: self.start] + self.after.encode() + source[self.end :]

    def __str__(self) -> str:
        return f"{self.path}:{self.line} {self.inside}: {self.before}  →  {self.after}"


FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.Gt,
    ast.LtE: ast.GtE,
    ast.Gt: ast.Lt,
    ast.GtE: ast.LtE,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
EDGES: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
OPPOSITES = {
    name: other
    for pair in (
        ("min", "max"),
        ("minimum", "maximum"),
        ("argmin", "argmax"),
        ("floor", "ceil"),
        ("lower", "upper"),
        ("all", "any"),
    )
    for name, other in (pair, pair[::-1])
}
"""Calls and attributes with an opposite; floor and ceil round down and up."""

DROPPED = ("sqrt", "abs", "square")
SYMMETRIC = ("min", "max", "minimum", "maximum", "hypot", "gcd", "isinstance", "zip", "multiply")


def mutations(path: str, source: bytes) -> Iterator[Mutation]:
    """Every mutation of a module, in the order of its text."""
    starts, lines = _line_starts(source), source.decode().splitlines()
    for inside, node in _places(ast.parse(source), ""):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        before, code = ast.unparse(node), lines[node.lineno - 1].strip()
        for operator, changed in _changes(node):
            after = ast.unparse(ast.fix_missing_locations(changed))
            if isinstance(node, ast.expr):
                after = f"({after})"
            if after.strip("()") != before.strip("()"):
                where = (node.lineno, start, end)
                yield Mutation(path, inside, operator, code, before, after, *where)


def _line_starts(source: bytes) -> list[int]:
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    return starts


def _places(node: ast.AST, inside: str) -> Iterator[tuple[str, ast.expr | ast.stmt]]:
    """Expressions and statements that do something, each with the function they stand in."""
    if isinstance(node, (ast.expr, ast.stmt)):
        yield inside or "module", node
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        inside = f"{inside}.{node.name}".lstrip(".")
    for child in _working_parts(node):
        yield from _places(child, inside)


def _working_parts(node: ast.AST) -> list[ast.AST]:
    """Children without annotations, decorators, texts, messages and what only people read."""
    if isinstance(node, (ast.JoinedStr, ast.Raise, ast.Import, ast.ImportFrom)):
        return []
    if isinstance(node, ast.FunctionDef):
        silent = node.name in ("__repr__", "__str__") or "overload" in map(_name, _decorators(node))
        return [] if silent else [*node.args.defaults, *node.body]
    if isinstance(node, ast.ClassDef):
        return list(node.body)
    if isinstance(node, ast.AnnAssign):
        return [node.value] if node.value else []
    if isinstance(node, ast.Call) and _name(node.func) in ("cast", "field", "option", "required"):
        return []
    return list(ast.iter_child_nodes(node))


def _decorators(node: ast.FunctionDef) -> list[ast.expr]:
    return node.decorator_list


def _changes(node: ast.AST) -> Iterator[Change]:
    makers: dict[type[ast.AST], Callable[[Any], Iterator[Change]]] = {
        ast.Compare: _compared,
        ast.BinOp: _computed,
        ast.BoolOp: _joined,
        ast.UnaryOp: _signed,
        ast.Constant: _counted,
        ast.Call: _called,
        ast.Attribute: _opposed,
        ast.Expr: _left_out,
        ast.AugAssign: _left_out,
        ast.Raise: _left_out,
        ast.IfExp: _one_way,
    }
    maker = makers.get(type(node))
    if maker:
        yield from maker(node)


def _compared(node: ast.Compare) -> Iterator[Change]:
    sides = [node.left, *node.comparators]
    for place, op in enumerate(node.ops):
        for name, table in (("comparison flipped", FLIPPED), ("edge moved", EDGES)):
            near_whole = any(_whole(side) for side in sides[place : place + 2])
            if type(op) in table and (table is FLIPPED or near_whole):
                yield name, _with(node, ops=_replaced(node.ops, place, table[type(op)]()))


def _computed(node: ast.BinOp) -> Iterator[Change]:
    if isinstance(node.left, (ast.Constant, ast.JoinedStr)) and isinstance(
        getattr(node.left, "value", ""), str
    ):
        return
    if type(node.op) in ARITHMETIC:
        yield "arithmetic", _with(node, op=ARITHMETIC[type(node.op)]())
    square = isinstance(node.op, ast.Pow) and isinstance(node.right, ast.Constant)
    same = isinstance(node.op, ast.Mult) and ast.unparse(node.left) == ast.unparse(node.right)
    if square or same:
        yield "power dropped", node.left


def _joined(node: ast.BoolOp) -> Iterator[Change]:
    for place in range(len(node.values)):
        rest = node.values[:place] + node.values[place + 1 :]
        yield "clause dropped", rest[0] if len(rest) == 1 else _with(node, values=rest)


def _signed(node: ast.UnaryOp) -> Iterator[Change]:
    if isinstance(node.op, (ast.Not, ast.USub, ast.Invert)):
        yield "not dropped" if isinstance(node.op, ast.Not) else "sign dropped", node.operand


def _counted(node: ast.Constant) -> Iterator[Change]:
    number = node.value
    if type(number) is int:
        yield "constant + 1", ast.Constant(number + 1)
        if number > 1:
            yield "constant - 1", ast.Constant(number - 1)
    if type(number) in (int, float) and isinstance(number, (int, float)) and number:
        yield "constant x 2", ast.Constant(2 * number)


def _called(node: ast.Call) -> Iterator[Change]:
    name = _name(node.func)
    if name in DROPPED:
        kept = node.args[0] if node.args else getattr(node.func, "value", None)
        if kept is not None:
            yield f"{name} dropped", kept
    if name in OPPOSITES and isinstance(node.func, ast.Name):
        yield "opposite", _with(node, func=ast.Name(OPPOSITES[name]))
    if name == "nextafter" and len(node.args) == 2:
        turned = ast.UnaryOp(ast.USub(), node.args[1])
        yield "rounded the other way", _with(node, args=[node.args[0], turned])
    first = node.args[:2]
    if len(first) == 2 and name not in SYMMETRIC and all(map(_plain, first)):
        yield "arguments swapped", _with(node, args=[*first[::-1], *node.args[2:]])


def _opposed(node: ast.Attribute) -> Iterator[Change]:
    if node.attr in OPPOSITES and isinstance(node.ctx, ast.Load):
        yield "opposite", _with(node, attr=OPPOSITES[node.attr])


def _left_out(node: ast.stmt) -> Iterator[Change]:
    """A check that is not made, a sum that is not added to."""
    if not (isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call)):
        yield "statement dropped", ast.Pass()


def _one_way(node: ast.IfExp) -> Iterator[Change]:
    yield "always so", node.body
    yield "never so", node.orelse


def _whole(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int


def _plain(node: ast.expr) -> bool:
    return isinstance(node, (ast.Name, ast.Attribute, ast.Constant))


def _name(node: ast.expr) -> str:
    return getattr(node, "id", getattr(node, "attr", ""))


def _replaced(parts: list[ast.cmpop], place: int, part: ast.cmpop) -> list[ast.cmpop]:
    return [*parts[:place], part, *parts[place + 1 :]]


def _with(node: ast.AST, **parts: object) -> ast.AST:
    changed = copy.copy(node)
    for name, part in parts.items():
        setattr(changed, name, part)
    return changed
