"""How every text column is read, decided from what all its values look like and from options."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from labeldp.data.columns import NUMBER, is_text
from labeldp.data.dates import in_digits
from labeldp.data.dress import Dress
from labeldp.data.looks import BATCH, Looks
from labeldp.data.protocol import Reader, Wanted
from labeldp.data.reading import Reading
from labeldp.data.spelling import SOFT_BLANKS, Spelling, Wording, among_numbers, without_codes
from labeldp.errors import DataError

_MOMENT, _INSTANT, _DURATION = pa.timestamp("us"), pa.timestamp("us", "UTC"), pa.duration("us")


@dataclass(frozen=True)
class Decision:
    """What decides how columns are read, besides their looks."""

    request: Wanted
    nulls: tuple[str, ...]
    """Texts that mean missing."""

    @property
    def reading(self) -> Reading:
        return self.request.reading

    def worded(self, looks: Mapping[str, Looks]) -> Wording:
        """The spellings of all columns."""
        decimal = self._decimal(looks)
        spellings = {name: self._spelling(name, look, decimal) for name, look in looks.items()}
        notes = [
            note
            for name, look in looks.items()
            for note in _notes(name, look, spellings[name], self.reading)
        ]
        na = tuple(filter(None, self.reading.everywhere or ()))
        thousands = self.reading.thousands
        codes = self.reading.codes
        return Wording(spellings, decimal, thousands, tuple(notes), na, self.nulls, codes)

    def _decimal(self, looks: Mapping[str, Looks]) -> str:
        """The table's decimal sign: the comma where columns show it and none shows the point."""
        if self.reading.decimal is not None:
            return self.reading.decimal
        ways = {
            tuple(sign for sign in self.reading.decimals() if look.reads(sign))
            for name, look in looks.items()
            if look.numbers == look.values and name not in self.request.categorical
        }
        return "," if (",",) in ways and (".",) not in ways else "."

    def _spelling(self, name: str, look: Looks, decimal: str) -> Spelling:
        words = Spelling(pa.string(), direct=True, blanks=self.nulls)
        if name in self.request.categorical:
            return words
        blanks = (*self.nulls, *SOFT_BLANKS) if look.blank else self.nulls
        format = self._date_format(name, look)
        if format is not None:
            return Spelling(_MOMENT, "times", date_format=format, blanks=blanks)
        if look.numbers == look.values or self._dresses(name, look):
            return self._number(name, look, decimal, blanks) or words
        direct = self._direct(name, look)
        if look.boolean == look.values:
            return Spelling(pa.bool_(), direct=direct, blanks=blanks)
        if look.moment == look.values:
            return Spelling(_MOMENT, direct=direct, blanks=blanks)
        if look.values in (look.clock, look.lapse):
            return Spelling(_DURATION, "clock", blanks=blanks)
        return Spelling(_INSTANT, blanks=blanks) if look.zoned == look.values else words

    def _dresses(self, name: str, look: Looks) -> dict[str, Dress]:
        """What the numbers are dressed in, by the decimal signs that they may have."""
        known = Dress.of(self.reading.known.get(name, {}))
        found = {sign: look.dress(sign, known) for sign in self.reading.decimals(name)}
        return {sign: dress for sign, dress in found.items() if dress is not None}

    def _date_format(self, name: str, look: Looks) -> str | None:
        if not look.values:
            return None
        known = self.reading.known.get(name, {}).get("date_format")
        others = (look.moment, look.zoned, *([] if in_digits(known) else [look.numbers]))
        if known is not None and look.values not in others:
            return str(known)
        if self.reading.date_format is not None and look.declared == look.values:
            return self.reading.date_format
        return look.date_format

    def _number(
        self, name: str, look: Looks, decimal: str, blanks: tuple[str, ...]
    ) -> Spelling | None:
        """How the numbers are read; None if they are codes, or of different kinds."""
        if look.identifiers and name not in self.request.numeric:
            return None
        dresses = self._dresses(name, look)
        signs = self.reading.decimals(name)
        ways = [*dresses] if dresses else [sign for sign in signs if look.reads(sign)]
        if not ways and len(signs) > 1 and look.mixed is not None:
            ways, dresses = [look.mixed], {look.mixed: Dress("mixed")}
        if not ways:
            return None
        sign = decimal if decimal in ways else ways[0]
        if dresses or look.spelt or (sign == "," and look.decimal):
            said, dress = self.reading.thousands, dresses.get(sign)
            return Spelling(pa.float64(), "numbers", False, sign, said, None, blanks, dress)
        whole = look.integer == look.values > 0
        type_ = pa.int64() if whole else pa.float64()
        return Spelling(type_, direct=self._direct(name, look), blanks=blanks)

    def _direct(self, name: str, look: Looks) -> bool:
        """Whether no text of a column means missing but those that do everywhere."""
        codes = self.reading.codes.get(name, ())
        return not look.blank and all(re.fullmatch(NUMBER, code) for code in codes)


def _notes(name: str, look: Looks, spelling: Spelling, reading: Reading) -> Iterator[str]:
    if spelling.way == "numbers":
        unit = "" if spelling.dress is None else spelling.dress.note
        if spelling.dress is None or spelling.dress.unit is None:
            unit += "".join(f", without {sign}" for sign in look.beside)
        both = look.reads(".") and look.reads(",") and look.separated + look.decimal > 0
        both = both and reading.decimal is None and name not in reading.known
        other = "," if spelling.decimal == "." else "."
        doubt = f"; both signs would do: `decimal='{other}'` to change" if both else ""
        yield f"{name}: texts read as numbers, decimal sign {spelling.decimal!r}{unit}{doubt}"
    if spelling.way == "times":
        others = [form for form in look.formats if form != spelling.date_format]
        known = reading.date_format or name in reading.known or not others
        doubt = "" if known else f"; {others[0]} would do as well: `date_format` to change"
        yield f"{name}: dates read as {spelling.date_format}{doubt}"
    if spelling.way == "clock":
        yield f"{name}: times read as hours"
    if look.numbers == look.values and look.spelt and pa.types.is_string(spelling.type):
        yield f"{name}: numbers in different spellings or units, kept as text; `drop` it or mend it"
    if look.blank and not pa.types.is_string(spelling.type):
        yield f"{name}: {look.blank} texts such as '-' or '?' count as missing"


def retyped(schema: pa.Schema, wording: Wording) -> pa.Schema:
    """The schema with the types of what was text and is not."""
    for name, spelling in wording.spellings.items():
        if not is_text(spelling.type):
            place = schema.get_field_index(name)
            schema = schema.set(place, pa.field(name, spelling.type))
    return schema


_MOST_STRAYS = 20
"""Different texts among numbers or dates that may count as missing."""
_NEARLY_ALL, _HALF = 0.99, 0.5
"""Shares of numbers from which texts with digits count as missing, and from which all texts do if
somebody calls the column numeric."""

FindStrays = Callable[[str, bool], set[str]]
"""Finds the texts among the numbers of a column; among dates (True), those without digits."""


def without_strays(
    request: Wanted, looks: Mapping[str, Looks], find: FindStrays
) -> tuple[Wanted, list[str]]:
    """Return the request with stray texts as missing values, and a note for each such column.

    A column of numbers or dates with a few other texts keeps its type, and the texts count as
    missing; with many of them, or with texts that hold digits such as codes do, it is a category.
    """
    missing, categories, notes = list[str](), list[str](), list[str]()
    for name, look in looks.items():
        dates = look.nearly_dates or look.nearly_dressed
        declared = name in request.numeric
        if name in request.categorical or not (dates or look.misspelt(declared, False)):
            continue
        texts = find(name, dates)
        share = look.numbers / look.values
        if declared and share < _HALF and not dates:
            raise DataError(
                f"column {name!r} should be numeric, but most values are texts such as "
                f"{min(texts)[:40]!r}; correct them, or declare the column categorical"
            )
        few = len(texts) <= _MOST_STRAYS
        digits = not dates and any(re.search(r"\d", text) for text in texts)
        shown = ", ".join(map(repr, sorted(texts)[:3])) + ", …" * (len(texts) > 3)
        if declared or (few and (share >= _NEARLY_ALL or not digits)):
            missing += [f"{name}={text}" for text in sorted(texts)] if dates else [f"{name}=*"]
            notes.append(f"{name}: texts such as {shown} count as missing; `categorical` to change")
        else:
            categories.append(name)
            notes.append(f"{name}: numbers and texts such as {shown}, read as a category")
    if not notes:
        return request, notes
    said = request.reading.na
    na = ("", *missing) if said == () else (*(said or ()), *missing)
    reading = replace(request.reading, na=na if missing else said)
    named = (*request.categorical, *categories)
    return replace(request, categorical=named, reading=reading), notes


def stray_texts(reader: Reader, name: str, reading: Reading, dates: bool) -> set[str]:
    """Return some texts of a column that are no numbers; among dates, those without digits."""
    texts = set[str]()
    for batch in reader.batches([name], BATCH):
        values = without_codes(batch.column(0), reading.codes.get(name, ()))
        values = pc.utf8_trim_whitespace(values.cast(pa.string()).drop_null().unique())
        usual = pc.match_substring_regex(values, r"\d") if dates else among_numbers(values, reading)
        texts.update(values.filter(pc.invert(usual)).to_pylist())
        texts -= {*SOFT_BLANKS, *reading.nulls(False)}
        if len(texts) > _MOST_STRAYS:
            break
    return texts
