"""Pictures: readable without colour, the same bytes again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labeldp.pictures import Curve, Picture, draw, render
from tests.extras import extra

X = (1.0, 2.0, 3.0)
PICTURE = Picture(
    "it",
    "title",
    "x",
    "y",
    (
        Curve("sampling", X, X, (0.5, 1.5, 2.5), (1.5, 2.5, 3.5), "band", 1),
        Curve("privacy", X, X, (0.8, 1.8, 2.8), (1.2, 2.2, 3.2), "line", 0),
        Curve("other", X, X, style="line", colour=1),
        Curve("marks", X, X, (0.8, 1.8, 2.8), (1.2, 2.2, 3.2)),
        Curve("thin", X, X, (0.8, 1.8, 2.8), (1.2, 2.2, 3.2), "bars", 1),
    ),
    levels=(("level", 2.0),),
)


@pytest.mark.parametrize("names", [(), ("one", "two", "three", "four")])
def test_every_style_is_drawn_and_told_apart_without_colour(names: tuple[str, ...]) -> None:
    extra("matplotlib")
    figure = render(replace(PICTURE, names=names))
    (axes,) = figure.axes
    assert figure.legends[0].get_texts()[0].get_text()
    texts = {text.get_text() for text in figure.legends[0].get_texts()}
    assert texts == {"sampling", "privacy", "other", "marks", "thin", "level"}
    styles = [line.get_linestyle() for line in axes.lines if line.get_label() in texts]
    assert len(set(styles)) > 1
    assert [band.get_hatch() for band in axes.collections][:1] == ["////"]


def test_files_are_the_same_again(tmp_path: Path) -> None:
    extra("matplotlib")
    for folder in ("a", "b"):
        names = draw(PICTURE, tmp_path / folder)
    assert names == ["it.svg", "it.png"]
    assert (tmp_path / "a" / "it.svg").read_bytes() == (tmp_path / "b" / "it.svg").read_bytes()
    assert not list(tmp_path.rglob(".partial*"))


def test_bars_along_both_axes() -> None:
    extra("matplotlib")
    curve = Curve("both", X, X, (0.5, 1.5, 2.5), (1.5, 2.5, 3.5), reach=(0.1, 0.2, 0.3))
    (axes,) = render(replace(PICTURE, curves=(curve,))).axes
    widths = {
        tuple(np.ptp(segment, axis=0).round(6))
        for bars in axes.collections
        for segment in bars.get_segments()
    }
    assert widths == {(0.2, 0.0), (0.4, 0.0), (0.6, 0.0), (0.0, 1.0)}


def test_long_words_stay_on_the_paper() -> None:
    """Also above long names."""
    names = tuple(f"max(0, longitude - -11{place})" for place in X)
    words = "change of the label: numbers across their range, levels against the base"
    long = replace(PICTURE, title=f"{words}, {words}", x_label=words, names=names)
    figure = render(long)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    for text in (axes.title, axes.xaxis.label):
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
