"""Labels are looked at as a whole: what is wrong with any is one fact, told at the end."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest

from labeldp.data.labels import LabelCheck, LabelParser, check_label_type
from labeldp.errors import DataError

UNNAMED = "(the rows are not named because labels are private)"
WORDS = {
    "text": "label column 'y' holds text that is not a number (in a text file it may be a delimiter"
    " or quote too many in a line); correct it, give answers a number each, or name the "
    "texts that mean missing (`na`) " + UNNAMED,
    "infinite": "label column 'y' holds infinities; replace or remove those rows " + UNNAMED,
    "missing": "label column 'y' has missing values; pass `drop_missing_labels` (the row count then"
    " shows how many are missing) or remove those rows " + UNNAMED,
    "outside": "label column 'y' has values outside the range -1 to 10; widen the range or pass "
    "`clip=True` " + UNNAMED,
}
"""The graver before the lesser."""


def check(clip: bool = False) -> LabelCheck:
    return LabelCheck("y", -1.0, 10.0, clip, 3)


@pytest.mark.parametrize(
    ("values", "clip", "raised", "cleaned"),
    [
        ([-1.0, 3.0, 10.0], False, [], [-1.0, 3.0, 10.0]),
        ([3.0, math.nan], False, ["missing"], [3.0, -1.0]),
        ([3.0, math.nan], True, ["missing"], [3.0, -1.0]),
        ([3.0, math.inf], False, ["infinite"], None),
        ([3.0, -math.inf], True, ["infinite"], None),
        ([3.0, 10.5], False, ["outside"], None),
        ([3.0, -1.5], False, ["outside"], None),
        ([3.0, 10.5, -1.5], True, [], [3.0, 10.0, -1.0]),
        ([math.nan, math.inf, 11.0], False, ["infinite", "missing", "outside"], None),
    ],
)
def test_every_fault_raises_its_own_flag(
    values: list[float], clip: bool, raised: list[str], cleaned: list[float] | None
) -> None:
    checking = check(clip)
    found = checking.clean(np.array(values), ())
    assert checking.raised == raised
    assert ((found >= -1.0) & (found <= 10.0)).all()
    assert cleaned is None or found.tolist() == cleaned


def test_flags_of_all_parts_are_kept() -> None:
    checking = check()
    checking.clean(np.array([1.0]), ["text"])
    assert checking.raised == ["text"]
    checking.resume(["missing", "infinite"])
    checking.clean(np.array([1.0]), [])
    assert checking.raised == ["infinite", "missing", "text"]


@pytest.mark.parametrize("flag", WORDS)
def test_the_gravest_fault_is_the_one_that_is_told(flag: str) -> None:
    lesser = list(WORDS)[list(WORDS).index(flag) :]
    for raised in ([flag], lesser):
        checking = check()
        checking.resume(raised)
        with pytest.raises(DataError) as refusal:
            checking.finish()
        assert str(refusal.value) == WORDS[flag]


def test_a_column_without_faults_is_not_refused() -> None:
    checking = check()
    checking.clean(np.array([1.0]), [])
    checking.finish()


@pytest.mark.parametrize(
    "kind",
    [pa.int8(), pa.float32(), pa.decimal128(5, 2), pa.bool_(), pa.null(), pa.string(),
     pa.large_string(), pa.dictionary(pa.int8(), pa.string()),
     pa.dictionary(pa.int8(), pa.int64())],
    ids=str,
)  # fmt: skip
def test_numbers_truths_and_texts_may_be_labels(kind: pa.DataType) -> None:
    check_label_type(pa.field("y", kind))


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.int8()), pa.date32(), pa.timestamp("us"), pa.struct([])], ids=str
)
def test_nothing_else_may(kind: pa.DataType) -> None:
    with pytest.raises(DataError) as refusal:
        check_label_type(pa.field("y", kind))
    assert str(refusal.value) == (
        f"label column 'y' has type {kind}, which is not numeric; name another column or convert it"
    )


@pytest.mark.parametrize("encode", [False, True])
@pytest.mark.parametrize(
    ("texts", "values", "unreadable"),
    [
        (["1.5", " 2 ", "-3e1"], [1.5, 2.0, -30.0], False),
        (["true", "FALSE", "False", "True"], [1.0, 0.0, 0.0, 1.0], False),
        (["Yes", "no ", "Y", "N"], [1.0, 0.0, 1.0, 0.0], False),
        (["1.5", None, "", "NA", "?"], [1.5, math.nan, math.nan, math.nan, math.nan], False),
        (["1.5", "many"], [1.5, math.nan], True),
        (["few", "many"], [math.nan, math.nan], True),
        (["inf", "-Infinity", "+INF", "2"], [math.inf, -math.inf, math.inf, 2.0], False),
        (["1,234.5", "7"], [1234.5, 7.0], False),
    ],
)
def test_texts_are_numbers_missing_or_unreadable(
    texts: list[str | None], values: list[float], unreadable: bool, encode: bool
) -> None:
    array = pa.array(texts)
    found, flag = LabelParser().parse(array.dictionary_encode() if encode else array)
    np.testing.assert_array_equal(found, values)
    assert ("text" in flag) is unreadable


def test_a_decimal_comma_is_that_of_the_features() -> None:
    """ "1.234" is a plain number to everybody else."""
    found, flag = LabelParser(decimal=",").parse(pa.array(["1.234", "0,5"]))
    assert (found.tolist(), flag) == ([1234.0, 0.5], {"unit:"})
    found, flag = LabelParser(decimal=",").parse(pa.array(["1.234", "2.345"]))
    assert (found.tolist(), flag) == ([1234.0, 2345.0], {"unit:"})


def test_numbers_are_taken_as_they_are() -> None:
    found, flag = LabelParser().parse(pa.array([1, None, 3]))
    np.testing.assert_array_equal(found, [1.0, math.nan, 3.0])
    assert flag == frozenset()


@pytest.mark.parametrize(
    ("texts", "values", "units"),
    [
        (["239.5 TL", "1,000 TL"], [239.5, 1000], {"tl"}),
        (["$5", "6"], [5, 6], {"$", ""}),
        (["45%", "7 %"], [45, 7], {"%"}),
        (["239.5 talers", "1 taler"], [239.5, 1], {"taler"}),
        (["3", "4"], [3, 4], {""}),
    ],
)
def test_labels_may_have_one_unit(texts: list[str], values: list[float], units: set[str]) -> None:
    numbers, flags = LabelParser().parse(pa.array(texts))
    assert (numbers.tolist(), flags) == (values, {f"unit:{unit}" for unit in units})
    checking = LabelCheck("y", 0.0, 2000.0, False, 3)
    checking.clean(numbers, flags)
    checking.finish()


@pytest.mark.parametrize(
    "parts",
    [
        [["5 kg", "500 mg"]],
        [["5 kg"], ["500 mg"]],
        [["5 kg"], ["7"]],
        [["45%"], ["45"]],
        [["$5"], ["€5"]],
        [["9 DR", "9 CR"]],
        [["3 lakh"], ["250000"]],
    ],
)
def test_labels_in_several_units_are_refused(parts: list[list[str]]) -> None:
    """Whichever part of the table they stand in, and after the last."""
    checking = LabelCheck("y", 0.0, 2000.0, False, 3)
    for texts in parts:
        checking.clean(*LabelParser().parse(pa.array(texts)))
    again = LabelCheck("y", 0.0, 2000.0, False, 3)
    again.resume(checking.raised)
    for each in (checking, again):
        with pytest.raises(DataError) as refusal:
            each.finish()
        assert str(refusal.value) == (
            "label column 'y' holds numbers in different units; give them one " + UNNAMED
        )


def test_labels_of_any_text_are_not_told_apart_by_their_units() -> None:
    texts = [f"{k} unit{chr(97 + k)}{chr(98 + k)}" for k in range(20)]
    _, flags = LabelParser().parse(pa.array(texts))
    assert flags == {"text"}


@pytest.mark.parametrize("encode", [False, True])
def test_rows_that_have_a_label_are_those_without_a_blank(encode: bool) -> None:
    """Only usual words for missing are blanks: others may be answers."""
    blanks = [None, " NA ", "?", "-", "", "Unknown", "n.a.", "none"]
    others = ["1", "1O0", "$9", "x", "ABS", "refused", "k.A.", "nil", "yes", "False", "inf"]
    texts = pa.array([*blanks, *others])
    shown = LabelParser().has_label(texts.dictionary_encode() if encode else texts)
    assert shown.to_pylist() == [False] * len(blanks) + [True] * len(others)
    numbers = LabelParser().has_label(pa.array([1.0, None, math.nan, 0.0]))
    assert numbers.to_pylist() == [True, False, False, True]
