"""Dates as people and machines write them, in the words of one language and with plain signs.

    "Fri, 13 Dec 2019 13:27:00 GMT"  →  "13 Dec 2019 13:27:00"
    "13. Dezember 2019, 13.27 Uhr"   →  "13. Dec 2019 13:27"
    "2019年12月13日"                  →  "2019-12-13"

What is no date comes out as some text that is none either.
"""

from __future__ import annotations

from calendar import month_name

import pyarrow as pa
import pyarrow.compute as pc

_MONTHS = {
    "Jan": "janvier|janv|januar|jänner|januari|enero|ene|gennaio|gen|janeiro|"
           "styczeń|stycznia|sty|январь|января|янв|ocak|tammikuu(?:ta)?|ledna|leden",
    "Feb": "février|fevrier|févr|fév|februar|februari|febrero|febbraio|fevereiro|fev|"
           "luty|lutego|lut|февраль|февраля|фев|şubat|helmikuu(?:ta)?|února|únor",
    "Mar": "mars|märz|mär|mrz|maart|mrt|marzo|março|marts|"
           "marzec|marca|март|марта|мар|mart|maaliskuu(?:ta)?|března|březen",
    "Apr": "avril|avr|abril|abr|aprile|april|"
           "kwiecień|kwietnia|kwi|апрель|апреля|апр|nisan|huhtikuu(?:ta)?|dubna|duben",
    "May": "mai|mei|maj|mayo|maggio|mag|maio|maja|май|мая|mayıs|toukokuu(?:ta)?|května|květen",
    "Jun": "juin|juni|junio|giugno|giu|junho|"
           "czerwiec|czerwca|cze|июнь|июня|июн|haziran|kesäkuu(?:ta)?|června|červen",
    "Jul": "juillet|juil|juli|julio|luglio|lug|julho|"
           "lipiec|lipca|lip|июль|июля|июл|temmuz|heinäkuu(?:ta)?|července|červenec",
    "Aug": "août|aout|augustus|augusti|august|agosto|ago|"
           "sierpień|sierpnia|sie|август|августа|авг|ağustos|elokuu(?:ta)?|srpna|srpen",
    "Sep": "septembre|septiembre|settembre|setembro|september|sept|set|"
           "wrzesień|września|wrz|сентябрь|сентября|сен|сент|eylül|syyskuu(?:ta)?|září",
    "Oct": "octobre|oktober|okt|octubre|ottobre|ott|outubro|out|"
           "październik|października|paź|октябрь|октября|окт|ekim|lokakuu(?:ta)?|října|říjen",
    "Nov": "novembre|noviembre|novembro|november|"
           "listopad|listopada|lis|ноябрь|ноября|ноя|нояб|kasım|marraskuu(?:ta)?|listopadu",
    "Dec": "décembre|decembre|déc|dezember|dez|december|diciembre|dicembre|dic|dezembro|"
           "grudzień|grudnia|gru|декабрь|декабря|дек|aralık|joulukuu(?:ta)?|prosince|prosinec",
}  # fmt: skip
"""Months in German, French, Spanish, Italian, Portuguese, Dutch, Swedish, Danish, Polish, Russian,
Turkish, Finnish and Czech."""
_ENGLISH = {name[:3]: f"{name[:3]}(?:{name[3:]})?" for name in month_name[1:]}
_WEEKDAYS = (
    "(?:mon|tue|tues|wed|wednes|thu|thur|thurs|fri|sat|satur|sun)(?:day)?|"
    "(?:mon|diens|donners|frei|sams|sonn)tag|mittwoch|sonnabend|(?:mo|di|mi|do|fr|sa|so)[.,]|"
    "(?:lun|mar|mercre|jeu|vendre|same)di|dimanche|lunes|martes|miércoles|jueves|viernes|sábado|"
    "domingo|(?:lune|marte|mercole|giove|vener)dì|sabato|domenica"
)
"""Days of the week in English, German, French, Spanish and Italian; mar is March."""
_YEAR = (
    r"(?:^|\D)(?:1[5-9]|2[01])\d\d(?:\D|$)|^\d{8}[T ]|"
    r"\d\.?[-/. ]{1,2}\d\d(?:\D|$)|\pL-\d\d$|\d[-/. ]\pL{3,12}\.?[-/. ]\d\d(?:\D|$)"
)
"""Without a year a text is no date."""
_TIMED = r"\d\.?[ T:,].*\d|[年년]"
"""And if it has no time, and no signs of its own, there is nothing to change."""
_TIME = r"\d{1,2}:\d\d(?::\d\d)?"
_LETTERS = (
    (rf"^(?i:{_WEEKDAYS})[.,]?\s+", ""),
    (r"(?i)^(\d{1,2})(?:st|nd|rd|th|er|º|°) ", r"\1 "),
    (r"(?i)([a-z]\.?) (\d{1,2})(?:st|nd|rd|th)\b", r"\1 \2"),
    (r" (?:de|del|of) ", " "),
)
"""What is left out of words, before months are told."""
_SIGNS = (
    (r"^(\d{4})[年년] ?(\d{1,2})[月월] ?(\d{1,2})[日일]", r"\1-\2-\3"),
    (r"^(\d{4})(\d\d)(\d\d)[T ](\d\d):?(\d\d):?(\d\d)\b", r"\1-\2-\3 \4:\5:\6"),
    (r"(\d{4}):(\d\d:\d\d)", r"\1 \2"),
    (r"(\d),? (?:at|um|à|kl\.?|klo|alle|ore|om) (\d)", r"\1 \2"),
    (r"(\d), ?(\d{1,2}[:.h]\d\d)", r"\1 \2"),
    (r"^(\S*[-/. ].*\d\.?) (\d{1,2})[.h](\d\d)\.(\d\d)", r"\1 \2:\3:\4"),
    (r"^(\S*[-/. ].*\d\.?) (\d{1,2})[.h](\d\d)", r"\1 \2:\3"),
    (r"(:\d\d:\d\d)[.,]\d+", r"\1"),
    (r"(:\d\d) ?(?:Uhr|hrs|h|UTC|GMT|Z|[+-]00(?::?00)?)$", r"\1"),
    (r"(:\d\d) ?[Aa]\.?[Mm]\.?$", r"\1 AM"),
    (r"(:\d\d) ?[Pp]\.?[Mm]\.?$", r"\1 PM"),
    (r" ((?:1[3-9]|2[0-3]):\d\d(?::\d\d)?) PM$", r" \1"),
    (r" (00?:\d\d(?::\d\d)?) AM$", r" \1"),
    (rf"^(\pL+ \d{{1,2}}) ({_TIME}) (?:(?:UTC|GMT) )?(\d{{4}})$", r"\1 \3 \2"),
)
"""And how times stand beside days."""


def in_english(texts: pa.Array) -> pa.Array:
    """The same texts with English months, without weekdays, zones of no shift and other words."""
    dated = pc.match_substring_regex(texts, _YEAR)
    if not dated.true_count:
        return texts
    found = texts.filter(dated)
    if _any(found, r"\pL{2}"):
        found = _replaced(found, *_LETTERS)
        for month, words in _MONTHS.items():
            if _any(found, f"(?i){words}|{month}"):
                pattern = rf"(?i)(^|\PL)(?:{words}|{_ENGLISH[month]})\.?(\PL|$)"
                found = _replaced(found, (pattern, rf"\1{month}\2"))
    if _any(found, _TIMED):
        found = _replaced(found, *_SIGNS)
    return pc.replace_with_mask(texts, pc.coalesce(dated, pc.is_valid(dated)), found)


def _any(texts: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(texts, pattern)).as_py())


def _replaced(texts: pa.Array, *changes: tuple[str, str]) -> pa.Array:
    for pattern, by in changes:
        texts = pc.replace_substring_regex(texts, pattern, by)
    return texts
