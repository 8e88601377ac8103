"""Arguments of the public functions: of the kind that their type hints say, in plain values.

    @checked
    def plan(source: Any, epsilon: float, …) -> Plan: ...

Numbers of NumPy become those of Python, any sequence of names a tuple. What is of another kind is
refused in one line that names the argument; its value is shown only if it is a single one, since a
column passed by mistake may hold labels. Keywords that several functions share are a TypedDict,
`**text: Unpack[Text]`: they are checked, and shown by `help`, as if each was written out. Nothing
here is slow to import.
"""

from __future__ import annotations

import difflib
import inspect
import operator
import os
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import cache, wraps
from numbers import Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from labeldp.errors import InputError

__all__ = ["checked", "named", "plain", "plain_fields", "refuse_unknown"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Make = Callable[[Any], Any]
"""The plain value, or a TypeError or ValueError."""


def checked(function: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """The same function; arguments that it does not have, or of another kind, are an InputError."""
    signature = _written_out(function)

    @cache
    def hints() -> dict[str, Any]:
        return {name: _hint(function, each) for name, each in signature.parameters.items()}

    @wraps(function)
    def call(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as problem:
            refuse_unknown(function.__name__, kwargs, signature.parameters)
            cure = _by_name(signature) if "positional" in str(problem) else ""
            raise InputError(f"{function.__name__}(): {problem}{cure}") from None
        for name, value in bound.arguments.items():
            bound.arguments[name] = plain(name, hints()[name], value)
        return function(*bound.args, **bound.kwargs)

    vars(call)["__signature__"] = signature
    return call


def _written_out(function: Callable[..., Any]) -> inspect.Signature:
    """The signature, with a keyword for each of an unpacked TypedDict."""
    signature = inspect.signature(function)
    parameters: list[inspect.Parameter] = []
    for each in signature.parameters.values():
        shared = _unpacked(function, each)
        if shared is None:
            parameters.append(each)
            continue
        parameters += [
            inspect.Parameter(name, each.KEYWORD_ONLY, default=None, annotation=hint)
            for name, hint in get_type_hints(shared).items()
        ]
    return signature.replace(parameters=parameters)


def _unpacked(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The TypedDict that a parameter stands for, if it does."""
    hint = parameter.annotation
    if parameter.kind is not parameter.VAR_KEYWORD or not str(hint).startswith("Unpack["):
        return None
    return get_args(eval(hint, function.__globals__))[0]


def _by_name(signature: inspect.Signature) -> str:
    """How to give an argument that has no place, if there is one."""
    named = [name for name, each in signature.parameters.items() if each.kind is each.KEYWORD_ONLY]
    return f"; name the others, such as {named[0]}=..." if named else ""


def named(kind: type[Result]) -> type[Result]:
    """The same class; keywords that its constructor does not have are an InputError."""
    construct = kind.__init__
    known = inspect.signature(construct).parameters

    @wraps(construct)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        refuse_unknown(kind.__name__, kwargs, known)
        construct(self, *args, **kwargs)

    kind.__init__ = init  # type: ignore[method-assign]
    return kind


def refuse_unknown(function: str, given: Mapping[str, Any], known: Mapping[str, Any]) -> None:
    """Refuse keywords that a function does not have, with the nearest that it has."""
    open_ended = any(
        getattr(each, "kind", None) is inspect.Parameter.VAR_KEYWORD for each in known.values()
    )
    for name in given:
        if name not in known and not open_ended:
            close = difflib.get_close_matches(name, known, n=1)
            cure = f"did you mean `{close[0]}`?" if close else "leave it out"
            raise InputError(f"{function}() has no argument `{name}`; {cure}")


def plain_fields(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Values of some fields of a dataclass, each as its hint has it."""
    hints = _hints(kind)
    return {name: plain(name, hints[name], value) for name, value in values.items()}


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return get_type_hints(kind)


def plain(name: str, hint: Any, value: Any) -> Any:
    """A value as its hint has it, in plain Python values."""
    kinds = [(_kind_of(kind), kind is NoneType) for kind in _alternatives(hint)]
    for (make, _), _ in kinds:
        try:
            return make(value)
        except (TypeError, ValueError, OverflowError):
            continue
    words = " or ".join(dict.fromkeys(words for (_, words), nothing in kinds if not nothing))
    among = " of other things" if words.startswith("a list") and isinstance(value, list) else ""
    raise InputError(f"`{name}` must be {words}, not {_shown(value)}{among}")


def _kind_of(hint: Any) -> tuple[Make, str]:
    """What makes a plain value of this kind, and how the kind is called."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Sequence or inner[1:] == (...,):
        make, words = _kind_of(inner[0])
        return lambda value: _list(make, value), f"a list of {_MANY.get(inner[0], words)}"
    if hint in _KINDS or origin in _KINDS:
        return _KINDS[hint if hint in _KINDS else origin]
    if origin is Literal:
        return lambda value: _one_of(inner, value), " or ".join(map(repr, inner))
    if isinstance(hint, type):
        return lambda value: _instance(hint, value), f"of type {hint.__name__}"
    return _KINDS[Any]


def _hint(function: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    """The hint of a parameter; anything, where its names are imported for types only."""
    hint = parameter.annotation
    many = parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    if many or hint is parameter.empty:
        return Any
    if not isinstance(hint, str):
        return hint
    try:
        return eval(hint, function.__globals__)
    except NameError:
        return Any


def _alternatives(hint: Any) -> tuple[Any, ...]:
    if get_origin(hint) not in (Union, UnionType):
        return (hint,)
    each = tuple(kind for part in get_args(hint) for kind in _alternatives(part))
    return tuple(kind for kind in each if str not in each or get_origin(kind) is not Literal)


def _whole(value: Any) -> int:
    if _is_flag(value):
        raise TypeError
    if isinstance(value, Real) and (number := float(value)).is_integer() and abs(number) < 2**53:
        return int(number)
    return operator.index(value)


def _number(value: Any) -> float:
    if _is_flag(value) or not isinstance(value, Real | Decimal):
        raise TypeError
    return float(value)


def _is_flag(value: Any) -> bool:
    """Python's or NumPy's."""
    return type(value).__name__ in ("bool", "bool_")


def _flag(value: Any) -> bool:
    if not _is_flag(value):
        raise TypeError
    return bool(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return str(value)


def _nothing(value: Any) -> None:
    if value is not None:
        raise TypeError


def _list(make: Make, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str | bytes | Mapping):
        raise TypeError
    return tuple(map(make, value))


def _pair(value: Any) -> tuple[float, float]:
    low, high = _list(_number, value)
    return low, high


def _mapping(value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError
    return value


def _one_of(choices: Sequence[Any], value: Any) -> Any:
    if value not in choices:
        raise ValueError
    return value


def _instance(kind: type[Any], value: Any) -> Any:
    """Of a class; of a protocol is what has its names."""
    names = [name for name in vars(kind) if not name.startswith("_")]
    protocol = getattr(kind, "_is_protocol", False)
    if not (all(hasattr(value, n) for n in names) if protocol else isinstance(value, kind)):
        raise TypeError
    return value


def _path(value: Any) -> Any:
    if not isinstance(value, os.PathLike):
        raise TypeError
    return value


_KINDS: dict[Any, tuple[Make, str]] = {
    Any: (lambda value: value, "anything"),
    int: (_whole, "a whole number"),
    float: (_number, "a number"),
    bool: (_flag, "True or False"),
    str: (_text, "text"),
    NoneType: (_nothing, "None"),
    tuple: (_pair, "two numbers, the lower one first"),
    Mapping: (_mapping, "a dictionary"),
    os.PathLike: (_path, "a path"),
    Path: (_path, "a path"),
}
"""By hint; a tuple that is no list is one of two numbers."""
_MANY = {int: "whole numbers", float: "numbers", str: "texts"}


def _shown(value: Any) -> str:
    """A value for people; of what holds many values, only what it is."""
    if isinstance(value, str | bytes):
        return f"the text {value[:40]!r}" if isinstance(value, str) else "bytes"
    if value is None or _is_flag(value) or isinstance(value, Real):
        return str(value)
    home = type(value).__module__.partition(".")[0]
    name = type(value).__name__
    return f"a {name}" if home == "builtins" else f"a {home} {name}"
