"""What the parser of the command line says, each with a cure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Sequence

Words = Sequence[str]
Cure = Callable[[re.Match[str], Words, Sequence[str]], str]


def cured(message: str, words: Words, commands: Sequence[str]) -> str:
    """The parser's message, with what was typed and what to type instead."""
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
    told = f"Invalid value for '{option}'"
    whole = "integer" in found[0]
    typed = next((word for word in _values(option, words) if not _is_number(word, whole)), None)
    said = f"{told}: {typed!r} is no number" if typed is not None else f"{told}: that is no number"
    if option == "--label-range":
        return f"{said}; write two with a space between: --label-range 0 10"
    return f"{said}; write it with digits and a point, like {'250000' if whole else '0.5 or 1e-6'}"


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


def _option(found: re.Match[str], words: Words, _commands: Sequence[str]) -> str:
    return f"{found[0]}; {_help(words)} lists the options"


def _command(found: re.Match[str], _words: Words, commands: Sequence[str]) -> str:
    close = difflib.get_close_matches(found["name"], commands, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    return f"No such command '{found['name']}'; {meant}labeldp --help lists the commands"


def _missing(found: re.Match[str], words: Words, _commands: Sequence[str]) -> str:
    return f"{found[0]}; {_help(words)} says what it is"


def _help(words: Words) -> str:
    command = next((word for word in words if not word.startswith("-")), "")
    return " ".join(filter(None, ("labeldp", command, "--help")))


_CURES: dict[str, Cure] = {
    r"Option '(?P<option>--[a-z-]+)' requires 2 arguments": _two,
    r"Invalid value for '(?P<option>-[^']*)':.*(?:valid (?:number|float|int)|of type).*": _number,
    r"Got unexpected extra arguments? ?\(.*\)|Got unexpected extra argument\(s\) \(.*\)": _extra,
    r"No such option:? .*[^.]": _option,
    r"No such command '(?P<name>[^']*)'": _command,
    r"Missing (?:option|argument) '[^']*'": _missing,
}
