"""Commands whose options are the fields of frozen dataclasses.

    @dataclass(frozen=True)
    class Budget:
        epsilon: float = field(default=1.0, metadata={"help": "Privacy budget ε."})

    @derived
    def spend(budget: Budget, json: Json = False) -> None: ...

A parameter that is a dataclass stands for its fields: the parser sees one option for each, and the
function gets an instance. The help shows fields together under the first words of the docstring of
the dataclass that declares them. Where it depends on what is known when the command is built, its
type is `Annotated[Any, make]`, and `make()` the dataclass. A field's metadata say the rest:

    help      one sentence; needed
    metavar   what stands for the value in the help
    flag      the spelling, where it is not the field's name: "--no-…" for a field that is True if
              the flag is absent; None keeps a field off the command line
    argument  True: given by its place, without a name
    min       the smallest number that is accepted
    envvar    the variable that gives the value where the option is absent
    parse     makes the value of all texts that are given: such an option may be repeated
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, Field, field, fields, is_dataclass, make_dataclass
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from labeldp.cli.late import come_late
from labeldp.cli.output import in_flags


def derived(function: Callable[..., Any], **groups: type[Any]) -> Callable[..., Any]:
    """`function` as the parser is to see it; `groups` are dataclasses known only when it starts."""
    signature = inspect.signature(function, eval_str=True)
    kinds = {name: _kind(parameter.annotation) for name, parameter in signature.parameters.items()}
    spelled: dict[str, type[Any]] = {
        name: kind for name, kind in (kinds | groups).items() if is_dataclass(kind)
    }

    @wraps(function)
    def command(**values: Any) -> Any:
        come_late()
        made = {name: _collect(kind, values) for name, kind in spelled.items()}
        return function(**values, **made)

    parameters = [
        option
        for name, parameter in signature.parameters.items()
        for option in (_parameters(spelled[name]) if name in spelled else [parameter])
    ]
    # the parser looks at both, and a function that was wrapped shows neither of its own
    vars(command)["__signature__"] = signature.replace(
        parameters=[p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in parameters]
    )
    command.__annotations__ = {p.name: p.annotation for p in parameters}
    return command


def _kind(annotation: Any) -> type[Any]:
    """What a parameter is; one that is Annotated by a function of ours is what that makes now."""
    told = getattr(annotation, "__metadata__", ())
    found: type[Any] = told[0]() if told and inspect.isfunction(told[0]) else annotation
    return found


def merged(name: str, kinds: Iterable[type[Any]]) -> type[Any]:
    """One dataclass with the fields of several; where two have a field, it is the first's."""
    together: dict[str, tuple[str, Any, Any]] = {}
    for kind in kinds:
        hints = get_type_hints(kind)
        for each in fields(kind):
            told = {"group": group(kind, each.name), **each.metadata}
            copy = field(default=each.default, metadata=told)
            together.setdefault(each.name, (each.name, hints[each.name], copy))
    return make_dataclass(name, together.values(), frozen=True, kw_only=True)


def group(kind: type[Any], name: str) -> str:
    """What a field belongs to: the first words of the dataclass that declares it."""
    owner = next(each for each in kind.__mro__ if name in vars(each).get("__annotations__", ()))
    return re.split(r"[.,;:]", inspect.getdoc(owner) or "", maxsplit=1)[0]


def given(context: typer.Context) -> dict[str, str]:
    """The parameters that stand on the command line, and how they are spelled there."""
    found = {}
    for parameter in context.command.params:
        name = str(parameter.name)
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            found[name] = parameter.opts[0]
    return found


def _options(kind: type[Any]) -> list[Field[Any]]:
    return [each for each in fields(kind) if each.metadata.get("flag", "") is not None]


def _parameters(kind: type[Any]) -> Iterator[inspect.Parameter]:
    """One parameter for each field."""
    hints = get_type_hints(kind)
    for each in _options(kind):
        default = inspect.Parameter.empty if each.default is MISSING else each.default
        yield inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=False if _says_no(each) else None if _parsed(each) else default,
            annotation=Annotated[_hint(each, hints), _spelling(kind, each, hints[each.name])],
        )


def _hint(each: Field[Any], hints: dict[str, Any]) -> Any:
    return list[str] | None if _parsed(each) else hints[each.name]


def _spelling(kind: type[Any], each: Field[Any], hint: Any) -> Any:
    told = each.metadata
    words: dict[str, Any] = {
        "help": in_flags(told["help"]),
        "metavar": told.get("metavar"),
        "min": told.get("min"),
    }
    if told.get("argument"):
        return typer.Argument(**words)
    flag = told.get("flag") or "--" + each.name.replace("_", "-")
    if "envvar" in told:
        words["envvar"] = told["envvar"]
    spelled = "flag" in told or hint is bool  # a bool without a flag of its own would get two
    words["rich_help_panel"] = told.get("group") or group(kind, each.name)
    return typer.Option(*([flag] if spelled else []), **words)


def _parsed(each: Field[Any]) -> bool:
    return "parse" in each.metadata


def _says_no(each: Field[Any]) -> bool:
    return each.default is True


def _collect(kind: type[Any], values: dict[str, Any]) -> Any:
    """Take a dataclass's fields out of what the parser gives."""
    taken = {each.name: _value(each, values.pop(each.name)) for each in _options(kind)}
    return kind(**taken)


def _value(each: Field[Any], given: Any) -> Any:
    if _parsed(each):
        return each.metadata["parse"](given) if given else each.default
    return not given if _says_no(each) else given
