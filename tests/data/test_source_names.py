"""A row that was taken for a header: none of its values is said, for one of them is a label."""

from __future__ import annotations

from pathlib import Path

import pytest

from labeldp import DataError, InputError, look, scan

FIRST = "10.38{0}436{0}u{0}353568.25"
SECOND = "11.5{0}436{0}v{0}87431.75"
RANGE = (0, 1e6)
SECRETS = ("353568", "87431", "568.25")


def written(place: Path, name: str, *lines: str) -> Path:
    path = place / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def refusal(path: Path, **said: object) -> str:
    with pytest.raises(InputError) as caught:
        scan(path, **{"label": "y", "label_range": RANGE, **said})  # type: ignore[arg-type]
    return str(caught.value)


@pytest.mark.parametrize("sign", [",", ";", "|", "\t", " ", ":"])
@pytest.mark.parametrize("delimiter", [None, ".", ";", "5", "|", "u"])
@pytest.mark.parametrize("header", [(), ("a{0}b{0}c{0}z",), ("Survey of shops", "")])
def test_no_value_of_a_row_in_the_place_of_a_header(
    header: tuple[str, ...], delimiter: str | None, sign: str, tmp_path: Path
) -> None:
    lines = (line.format(sign) for line in (*header, FIRST, SECOND, FIRST))
    path = written(tmp_path, "t.csv", *lines)
    said = refusal(path, delimiter=delimiter)
    with pytest.raises(InputError) as caught:
        look(path, drop=["nothing"], delimiter=delimiter)
    for text in (said, str(caught.value)):
        assert not any(secret in text for secret in SECRETS), text


def test_files_without_headers_differ_in_values_that_are_not_said(tmp_path: Path) -> None:
    written(tmp_path, "1.csv", FIRST.format(","), SECOND.format(","))
    written(tmp_path, "2.csv", SECOND.format(","), FIRST.format(","))
    said = refusal(tmp_path)
    assert not any(secret in said for secret in SECRETS), said


def test_a_label_that_is_also_a_feature(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "353568.25,u,353568.25", "1,v,2")
    said = refusal(path)
    assert not any(secret in said for secret in SECRETS), said
    assert "several columns" in said


def test_names_are_said_as_ever(tmp_path: Path) -> None:
    path = written(tmp_path, "t.csv", "age,x1,income_2019,label", "1,2,3,4", "2,3,4,5")
    assert refusal(path, label="z") == (
        "label: there is no column 'z'; the columns are 'age', 'x1', 'income_2019', 'label'"
    )
    assert "did you mean 'label'" in refusal(path, label="lable")
    said = refusal(path, delimiter=";", label="label")
    assert "the only one is 'age,x1,income_2019,label'; name another `delimiter`" in said
    years = written(tmp_path, "y.csv", "town,2019,2020,label", "a,2,3,4", "b,3,4,5")
    assert "the columns are 'town', 'label'" in refusal(years, label="z")
    assert "did you mean 'label'?" in refusal(years, label="lable")


def test_frames_say_their_names() -> None:
    with pytest.raises(DataError, match="the columns are 'town'"):
        scan({"town": ["a", "b"], "2019": [1, 2]}, label="y")
