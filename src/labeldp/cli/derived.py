"""Commands whose options are the fields of frozen dataclasses.

    @dataclass(frozen=True)
    class Budget:
        epsilon: float = field(default=1.0, metadata={"help": "Privacy budget ε."})

    def spend(budget: Budget, out: Annotated[Path | None, told("Where.")] = None) -> None: ...

    command("spend", spend)

A parameter that is a dataclass stands for its fields: the parser sees one option for each, and the
function gets an instance. The help shows fields together under the first words of the docstring of
the dataclass that declares them. Where it depends on what is known when the command is built, its
type is `Annotated[Any, make]`, and `make()` the dataclass. Any other parameter is an option of its
own (`told`), or is given by its place (`argument`). A field's metadata, and `told`, say the rest:

    help      one sentence; needed of a field
    metavar   what stands for the value in the help
    flag      the spelling, where it is not the field's name: "--no-…" for a field that is True if
              the flag is absent; None keeps a field off the command line
    argument  True: given by its place, without a name
    min       the smallest number that is accepted
    envvar    the variable that gives the value where the option is absent
    parse     makes the value of all texts that are given: such an option may be repeated
    needed    of an option that may be left out at times: whether it may not, from the set of
              parameters that are given
"""

from __future__ import annotations

import inspect
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, make_dataclass
from functools import cached_property
from pathlib import Path
from types import NoneType
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import click

from labeldp.cli.output import in_flags
from labeldp.cli.quick import start_quickly


def told(help: str, **more: Any) -> dict[str, Any]:
    """What the help says of a parameter that is an option of its own."""
    return {"help": help, **more}


def argument(help: str, **more: Any) -> dict[str, Any]:
    """The same of one that is given by its place."""
    return told(help, argument=True, **more)


def command(name: str, function: Callable[..., Any], **settings: Any) -> click.Command:
    """A function for the parser."""
    declared = inspect.signature(function, eval_str=True).parameters
    kinds = {each.name: _kind(each.annotation) for each in declared.values()}
    items = {name: list(_items(declared[name], kind)) for name, kind in kinds.items()}

    def run(**values: Any) -> Any:
        start_quickly()
        given = {name: _value(kind, items[name], values) for name, kind in kinds.items()}
        return function(**given)

    words = inspect.getdoc(function)
    parameters = [item.parameter() for each in items.values() for item in each]
    return _Command(name, callback=run, params=parameters, **{"help": words} | settings)


def merged(name: str, kinds: Iterable[type[Any]]) -> type[Any]:
    """One dataclass with the fields of several; where two have a field, it is the first's."""
    together: dict[str, tuple[str, Any, Any]] = {}
    for kind in kinds:
        hints = get_type_hints(kind)
        for each in fields(kind):
            copy = field(default=each.default, metadata=_words(kind, each))
            together.setdefault(each.name, (each.name, hints[each.name], copy))
    return make_dataclass(name, together.values(), frozen=True, kw_only=True)


def _words(kind: type[Any], each: Field[Any]) -> dict[str, Any]:
    """A field's metadata, and what it belongs to: first words of the dataclass that declares it."""
    owners = (base for base in kind.__mro__ if each.name in vars(base).get("__annotations__", ()))
    group = re.split(r"[.,;:]", inspect.getdoc(next(owners)) or "", maxsplit=1)[0]
    return {"group": group, **each.metadata}


def given(context: click.Context) -> dict[str, str]:
    """The parameters that stand on the command line, and how they are spelled there."""
    found = {}
    for parameter in context.command.params:
        source = context.get_parameter_source(str(parameter.name))
        if source is click.core.ParameterSource.COMMANDLINE:
            found[str(parameter.name)] = parameter.opts[0]
    return found


def _kind(annotation: Any) -> Any:
    """What a parameter is; one that is Annotated by a function of ours is what that makes now."""
    words = getattr(annotation, "__metadata__", ())
    return words[0]() if words and callable(words[0]) else annotation


@dataclass(frozen=True)
class _Item:
    """One thing that may be typed."""

    name: str
    hint: Any
    default: Any
    """MISSING: it must be given."""
    told: Mapping[str, Any]

    @cached_property
    def plain(self) -> Any:
        """The type of a value that is there."""
        inner = [each for each in get_args(self.hint) if each is not NoneType]
        optional = len(inner) < len(get_args(self.hint))
        return inner[0] if optional else self.hint

    @property
    def many(self) -> bool:
        """Whether it may come more than once."""
        return "parse" in self.told or get_origin(self.plain) is list

    @property
    def says_no(self) -> bool:
        return self.default is True

    def value(self, given: Any) -> Any:
        """What the function gets for what the parser gives."""
        if self.many and not given:
            return self.default
        if "parse" in self.told:
            return self.told["parse"](given)
        return not given if self.says_no else list(given) if self.many else given

    def parameter(self) -> click.Parameter:
        """The same for the parser."""
        words = in_flags(self.told.get("help", ""))
        settings = {
            "type": self._type(),
            "required": self.default is MISSING,
            "envvar": self.told.get("envvar"),
            "metavar": self.told.get("metavar"),
        }
        if self.default is not MISSING:
            settings["default"] = None if self.many else self.value(self.default)
        if self.told.get("argument"):
            return _Argument(self.name, words, nargs=-1 if self.many else 1, **settings)
        spelling = self.told.get("flag") or "--" + self.name.replace("_", "-")
        if self.plain is bool:
            settings["is_flag"] = True
        where, needed = self.told.get("group", _ALONE), self.told.get("needed")
        return _Option([self.name, spelling], words, where, needed, multiple=self.many, **settings)

    def _type(self) -> Any:
        if "parse" in self.told:
            return str
        kinds = get_args(self.plain) or (self.plain,)
        least = self.told.get("min")
        made = [_TYPES.get(kind, click.STRING) for kind in kinds]
        if least is not None:
            made = [_RANGES[kind](min=least) for kind in kinds]
        return tuple(made) if get_origin(self.plain) is tuple else made[0]


_TYPES = {int: click.INT, float: click.FLOAT, bool: click.BOOL, Path: Path}
_RANGES: dict[Any, Any] = {int: click.IntRange, float: click.FloatRange}


def _items(declared: inspect.Parameter, kind: Any) -> Iterator[_Item]:
    """What a parameter of a command stands for; its context is none of them."""
    if is_dataclass(kind):
        yield from _fields(kind)
    elif kind is not click.Context:
        missing = declared.default is inspect.Parameter.empty
        bare = kind, {"argument": missing}
        hint, words = get_args(kind) if get_origin(kind) is Annotated else bare
        yield _Item(declared.name, hint, MISSING if missing else declared.default, words)


def _fields(kind: Any) -> Iterator[_Item]:
    """What the fields of a dataclass stand for, but for those that are for Python alone."""
    hints = get_type_hints(kind)
    for each in fields(kind):
        if each.metadata.get("flag", "") is not None:
            yield _Item(each.name, hints[each.name], each.default, _words(kind, each))


def _value(kind: Any, items: list[_Item], values: dict[str, Any]) -> Any:
    """What a function gets for a parameter."""
    if kind is click.Context:
        return click.get_current_context()
    made = {item.name: item.value(values[item.name]) for item in items}
    if not is_dataclass(kind):
        return made[items[0].name]
    make: Any = kind  # more than the checker of types makes of it
    return make(**made)


_ALONE = "Options"
"""Where the help shows an option that no dataclass declares."""


class _Option(click.Option):
    """An option that knows which group of the help it stands in, and when it is needed."""

    def __init__(
        self,
        names: list[str],
        words: str,
        group: str,
        needed: Callable[[set[str]], bool] | None,
        **settings: Any,
    ) -> None:
        settings |= {"show_default": True, "show_envvar": settings["envvar"] is not None}
        super().__init__(names, help=words, **settings)
        self.group = group
        self.needed = needed

    def value_is_missing(self, value: Any) -> bool:  # noqa: ARG002
        return False  # the command looks for all that is missing


class _Argument(click.Argument):
    """An argument with a line of its own in the help."""

    group = "Arguments"

    def __init__(self, name: str, words: str, **settings: Any) -> None:
        super().__init__([name], **settings)
        self._words = words

    def value_is_missing(self, value: Any) -> bool:  # noqa: ARG002
        return False

    def get_help_record(self, ctx: click.Context) -> tuple[str, str]:
        return self.make_metavar(ctx), self._words


_TYPED = click.core.ParameterSource.COMMANDLINE, click.core.ParameterSource.ENVIRONMENT
"""Where a value comes from that somebody gave."""


class _Command(click.Command):
    """A command whose help shows options in the groups that declare them.

    It refuses an option of one value that is given twice, and names all that is missing at once.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        for option, times in Counter(order).items():
            single = isinstance(option, click.Option) and not (option.multiple or option.is_flag)
            if single and times > 1:
                raise click.UsageError(_given_twice(option.opts[0]), ctx)
        rest = super().parse_args(ctx, args)
        self._check_missing(ctx)
        return rest

    def _check_missing(self, ctx: click.Context) -> None:
        sources = {str(each.name): ctx.get_parameter_source(str(each.name)) for each in self.params}
        there = {name for name, source in sources.items() if source in _TYPED}
        missing = [
            _as_typed(each, ctx)
            for each in self.params
            if each.name not in there and _is_needed(each, there)
        ]
        if missing:
            text = f"Missing {', '.join(missing)}"
            for each in self.params:
                if sources[str(each.name)] is click.core.ParameterSource.ENVIRONMENT:
                    text += f" ({each.envvar} is set)"
            raise click.UsageError(text, ctx)

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                groups.setdefault(getattr(parameter, "group", _ALONE), []).append(record)
        alone = groups.pop(_ALONE)  # --help at least
        for title, records in (groups | {_ALONE: alone}).items():
            with formatter.section(title):
                formatter.write_dl(records)


def _given_twice(flag: str) -> str:
    text = f"{flag} is given twice and takes one value"
    if flag != "--label":
        return f"{text}; keep one of them"
    return (
        f"{text}: release labels one by one, each time with --drop for the others, since all that "
        "is neither label nor dropped is published as a feature"
    )


def _is_needed(parameter: click.Parameter, there: set[str]) -> bool:
    needed = getattr(parameter, "needed", None)
    return parameter.required if needed is None else bool(needed(there))


def _as_typed(parameter: click.Parameter, ctx: click.Context) -> str:
    """A missing parameter as it would be typed."""
    name = parameter.make_metavar(ctx)
    return name if isinstance(parameter, click.Argument) else f"{parameter.opts[0]} {name}"
