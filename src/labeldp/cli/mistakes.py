"""What the parser of the command line says, each with a cure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence

import click

Words = Sequence[str]
Cure = Callable[[re.Match[str], Words, Sequence[str]], str]


def cured(problem: click.ClickException, words: Words, commands: Sequence[str]) -> str:
    """The parser's message, with what was typed and what to type instead."""
    if isinstance(problem, click.NoSuchOption):
        return _option(problem, words)
    message = problem.format_message()
    for pattern, cure in _CURES.items():
        found = re.search(pattern, message)
        if found is not None:
            return cure(found, words, commands)
    return message


def _two(found: re.Match[str], _words: Words, _commands: Sequence[str]) -> str:
    option = found["option"]
    return f"{found[0]}; write two numbers with a space between: {option} 0 10"


def _number(found: re.Match[str], words: Words, _commands: Sequence[str]) -> str:
    option = found["option"].split(" ")[0]
    whole = "integer" in found[0]
    typed = next((word for word in _values(option, words) if not _is_number(word, whole)), None)
    which = "that" if typed is None else repr(typed)
    said = f"Invalid value for '{option}': {which} is no {'whole ' * whole}number"
    if option == "--label-range":
        return f"{said}; write two with a space between: --label-range 0 10"
    how = "digits alone, like 250000" if whole else "digits and a point, like 0.5 or 1e-6"
    return f"{said}; write it with {how}"


def _range(found: re.Match[str], _words: Words, _commands: Sequence[str]) -> str:
    return f"{found['option']} must be at least {found['least']}, not {found['typed']}"


def _value(found: re.Match[str], _words: Words, _commands: Sequence[str]) -> str:
    return f"{found[0]}; write what it is to be behind it, or leave {found['option']} out"


def _values(option: str, words: Words) -> list[str]:
    """What stands behind an option."""
    found: list[str] = []
    for place, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == option:
            found += [value] if equals else words[place + 1 : place + 3]
    return found


def _is_number(word: str, whole: bool) -> bool:
    try:
        int(word) if whole else float(word)
    except ValueError:
        return False
    return True


def _extra(found: re.Match[str], words: Words, _commands: Sequence[str]) -> str:
    return (
        f"{found[0]}; lists have commas and no spaces (A,B), names with spaces stand in quotes; "
        f"{_help(words)} shows what is taken"
    )


def _option(problem: click.NoSuchOption, words: Words) -> str:
    close = " or ".join(problem.possibilities or ())
    meant = f"did you mean {close}? " if close else ""
    return f"No such option: {problem.option_name}; {meant}{_help(words)} lists the options"


def _command(found: re.Match[str], _words: Words, commands: Sequence[str]) -> str:
    close = difflib.get_close_matches(found["name"], commands, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"No such command '{found['name']}'; {meant}labeldp --help lists the commands"


def _missing(found: re.Match[str], words: Words, _commands: Sequence[str]) -> str:
    return f"{found[0]}; {_help(words)} says what is needed"


def _help(words: Words) -> str:
    command = next((word for word in words if not word.startswith("-")), "")
    return " ".join(filter(None, ("labeldp", command, "--help")))


_CURES: dict[str, Cure] = {
    r"Option '(?P<option>--[a-z-]+)' requires 2 arguments": _two,
    r"Option '(?P<option>--[a-z-]+)' requires an argument": _value,
    r"'(?P<option>--[a-z-]+)': (?P<typed>\S+) is not in the range x>=(?P<least>\d+)": _range,
    r"Invalid value for '(?P<option>-[^']*)':.*(?:valid (?:number|float|int)|of type).*": _number,
    r"Got unexpected extra arguments? ?\(.*\)|Got unexpected extra argument\(s\) \(.*\)": _extra,
    r"No such command '(?P<name>[^']*)'": _command,
    r"^Missing .*": _missing,
}
