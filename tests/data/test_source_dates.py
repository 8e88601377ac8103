"""Dates as machines and people of several languages write them are the same days and hours."""

import datetime

import numpy as np
import pyarrow as pa
import pytest

from labeldp import DataError, look, scan
from labeldp.data.dates import MOMENT
from tests.tables import csv_of

MOMENTS = [
    datetime.datetime(2019, 1, 1) + datetime.timedelta(days=3 * k, minutes=7 * k * k % 1440)
    for k in range(300)
]
POLISH, RUSSIAN, GERMAN = map(
    str.split,
    (
        "stycznia lutego marca kwietnia maja czerwca lipca sierpnia września października "
        "listopada grudnia",
        "января февраля марта апреля мая июня июля августа сентября октября ноября декабря",
        "Januar Februar März April Mai Juni Juli August September Oktober November Dezember",
    ),
)
ORDINALS = {1: "st", 2: "nd", 3: "rd", 21: "st", 22: "nd", 23: "rd", 31: "st"}

MINUTES = {
    "zone UTC": "%Y-%m-%d %H:%M:00 UTC",
    "zone of two digits": "%Y-%m-%d %H:%M:00+00",
    "nanoseconds": "%Y-%m-%d %H:%M:00.000000123",
    "a comma before milliseconds": "%Y-%m-%d %H:%M:00,000",
    "a point in the time": "%d.%m.%Y %H.%M",
    "a comma before the time": "%d/%m/%Y, %H:%M",
    "AM": "%m/%d/%Y %I:%M%p",
    "ctime": "%a %b %d %H:%M:00 %Y",
    "mail": "%a, %d %b %Y %H:%M:00 +0000",
    "web": "%a, %d %b %Y %H:%M:00 GMT",
    "SAS": "%d%b%Y:%H:%M:00",
    "log": "%d/%b/%Y:%H:%M:00",
    "compact": "%Y%m%dT%H%M00",
    "Finnish": "%d.%m.%Y klo %H.%M",
    "German": "%d.%m.%Y, %H:%M Uhr",
}
DAYS = {
    "two digits": "%d-%m-%y",
    "Chinese": "%Y年%m月%d日",
    "month inside": "%Y-%b-%d",
    "slashes": "%d/%b/%Y",
    "points and spaces": "%d. %m. %Y",
    "Korean": "%Y. %m. %d.",
}


def days_of(texts: list[str]) -> np.ndarray:
    """As a feature has them, in days since 1970."""
    (batch,) = scan(csv_of({"d": texts, "x": range(len(texts))}), features=["d"]).feature_batches()
    assert pa.types.is_timestamp(batch.column(0).type), texts[0]
    return batch.column(0).to_numpy(zero_copy_only=False).astype("datetime64[s]")


@pytest.mark.parametrize("form", MINUTES.values(), ids=MINUTES)
def test_times_to_the_minute(form: str) -> None:
    wanted = np.array(MOMENTS, "datetime64[s]")
    np.testing.assert_array_equal(days_of([when.strftime(form) for when in MOMENTS]), wanted)


@pytest.mark.parametrize("form", DAYS.values(), ids=DAYS)
def test_days(form: str) -> None:
    wanted = np.array(MOMENTS, "datetime64[D]").astype("datetime64[s]")
    np.testing.assert_array_equal(days_of([when.strftime(form) for when in MOMENTS]), wanted)


@pytest.mark.parametrize(
    "spelt",
    [
        lambda d: f"{d.day}{ORDINALS.get(d.day, 'th')} {d:%B} {d.year}",
        lambda d: f"{d:%B} {d.day}{ORDINALS.get(d.day, 'th')}, {d.year}",
        lambda d: f"{d.day} {POLISH[d.month - 1]} {d.year}",
        lambda d: f"{d.day} {RUSSIAN[d.month - 1]} {d.year}",
        lambda d: f"{d.day}. {GERMAN[d.month - 1]} {d.year}",
        lambda d: f"{d.year}-{d.month}-{d.day}",
    ],
)
def test_days_in_words(spelt) -> None:
    wanted = np.array(MOMENTS, "datetime64[D]").astype("datetime64[s]")
    np.testing.assert_array_equal(days_of([spelt(when) for when in MOMENTS]), wanted)


def test_zones_of_two_digits_shift() -> None:
    texts = [f"{when:%Y-%m-%d %H:%M}:00+02" for when in MOMENTS]
    (batch,) = scan({"d": texts, "x": range(300)}, features=["d"]).feature_batches()
    found = batch.column(0).to_numpy(zero_copy_only=False).astype("datetime64[s]")
    np.testing.assert_array_equal(
        found, np.array(MOMENTS, "datetime64[s]") - np.timedelta64(2, "h")
    )


def test_months() -> None:
    for form in ("%Y/%m", "%Y-%b"):
        found = days_of([when.strftime(form) for when in MOMENTS])
        np.testing.assert_array_equal(found, np.array(MOMENTS, "datetime64[M]").astype(found.dtype))


def test_days_that_no_calendar_has_are_missing(tmp_path) -> None:
    """In a text file too, whose plain dates Arrow reads; a text that is none is refused."""
    good = [f"{when:%Y-%m-%d}" for when in MOMENTS]
    for bad in ("2019-02-30", "2019-02-29", "1900-02-29", "2020-06-31", "0000-00-00"):
        texts = [*good[:50], bad, *good[51:]]
        found = days_of(texts)
        assert np.isnat(found).tolist() == [k == 50 for k in range(300)]
        lines = "".join(f"{text},{k}\n" for k, text in enumerate(texts))
        (tmp_path / "t.csv").write_text("d,x\n" + lines)
        (batch,) = scan(tmp_path / "t.csv", features=["d"]).feature_batches()
        assert batch.column(0).null_count == 1
    assert not np.isnat(days_of([*good, "2020-02-29", "2000-02-29"])).any()


@pytest.mark.parametrize("year", [1900, 2000, 2019, 2020, 2023, 2024, 2100])
def test_the_calendar_is_the_right_one(year: int) -> None:
    days = [f"{year}-{month:02d}-{day:02d}" for month in range(14) for day in range(33)]
    matched = pa.compute.match_substring_regex(pa.array(days), MOMENT).to_pylist()
    for day, found in zip(days, matched, strict=True):
        try:
            datetime.date.fromisoformat(day)
        except ValueError:
            assert not found, day
        else:
            assert found, day


def test_a_date_of_another_kind_is_refused_where_the_format_is_known() -> None:
    texts = [f"{when:%d.%m.%Y}" for when in MOMENTS]
    spelt = {"d": {"decimal": ".", "date_format": "%d.%m.%Y"}}
    scan({"d": texts, "x": range(300)}, features=["d"], spelt=spelt)
    texts[7] = "soon 7"
    with pytest.raises(DataError, match=r"holds dates like %d\.%m\.%Y but also 'soon 7'"):
        list(scan({"d": texts, "x": range(300)}, features=["d"], spelt=spelt).feature_batches())


@pytest.mark.parametrize("form", ["%Y%m%d", "%d%m%Y"])
def test_look_finds_days_in_digits(form: str) -> None:
    table = {"d": [when.strftime(form) for when in MOMENTS], "y": [k % 7 for k in range(300)]}
    assert look(table, label="y")["options"] == ["--label", "y", "--date-format", form, "--clip"]
    table["d"][5] = "99999999"
    assert "--date-format" not in look(table, label="y")["options"]


def test_durations_in_days() -> None:
    texts = [f"{k} days {k % 24:02d}:30:00" for k in range(200)]
    (batch,) = scan(csv_of({"d": texts, "x": range(200)}), features=["d"]).feature_batches()
    minutes = batch.column(0).to_numpy(zero_copy_only=False).astype("timedelta64[m]").astype(int)
    assert minutes.tolist() == [k * 1440 + k % 24 * 60 + 30 for k in range(200)]


def test_hours_of_the_whole_day_beside_am_and_pm() -> None:
    """A slip of exports: 13:30 PM is 13:30, and 01:30 PM is so too."""
    wanted = np.array(MOMENTS, "datetime64[s]")
    found = days_of([when.strftime("%d.%m.%Y %H:%M %p") for when in MOMENTS])
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("bad", ["05.03.2019 24:30", "05.03.2019 11:75"])
def test_hours_that_no_clock_has_make_no_dates(bad: str) -> None:
    """Few of them are refused where the format is known; none is lost without a word."""
    texts = [f"{when:%d.%m.%Y %H:%M}" for when in MOMENTS]
    texts[7] = bad
    source = scan({"d": texts, "x": range(300)}, features=["d"])
    assert source.columns[0].kind == "categorical"
