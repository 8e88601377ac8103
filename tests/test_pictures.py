"""Pictures: readable on light and dark paper and without colour, the same bytes again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from labeldp import pictures
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


def luminance(colour: str) -> float:
    """As the web's guidelines for contrast have it."""
    channels = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("dark", [False, True])
def test_ink_and_the_first_colours_stand_out_from_the_paper(dark: bool) -> None:
    paper, ink = pictures._PAPER_AND_INK[dark]
    assert contrast(paper, ink) > 12
    palette = pictures._DARK_COLOURS if dark else pictures._COLOURS
    for colour in palette[:3]:
        assert contrast(paper, colour) > 3


@pytest.mark.parametrize("sideways", [False, True])
@pytest.mark.parametrize("dark", [False, True])
def test_every_style_is_drawn_and_told_apart_without_colour(sideways: bool, dark: bool) -> None:
    extra("matplotlib")
    names = ("one", "two", "three", "four") if sideways else ()
    figure = render(replace(PICTURE, sideways=sideways, names=names), dark=dark)
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
        names = draw(PICTURE, tmp_path / folder, dark=True)
    assert names == ["it.svg", "it.png", "it-dark.svg"]
    for name in ("it.svg", "it-dark.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    assert not list(tmp_path.rglob(".partial*"))


@pytest.mark.parametrize("sideways", [False, True])
def test_bars_along_both_axes(sideways: bool) -> None:
    extra("matplotlib")
    curve = Curve("both", X, X, (0.5, 1.5, 2.5), (1.5, 2.5, 3.5), reach=(0.1, 0.2, 0.3))
    (axes,) = render(replace(PICTURE, curves=(curve,), sideways=sideways)).axes
    widths = {
        tuple(np.ptp(segment, axis=0).round(6))
        for bars in axes.collections
        for segment in bars.get_segments()
    }
    lengths = {(0.2, 0.0), (0.4, 0.0), (0.6, 0.0), (0.0, 1.0)}
    assert widths == ({(b, a) for a, b in lengths} if sideways else lengths)


def test_long_words_stay_on_the_paper() -> None:
    """Also beside long names, which leave little room below."""
    names = tuple(f"max(0, longitude - -11{place})" for place in X)
    words = "change of the label: numbers across their range, levels against the base"
    long = replace(PICTURE, title=f"{words}, {words}", y_label=words, sideways=True, names=names)
    figure = render(long)
    figure.draw_without_rendering()
    (axes,) = figure.axes
    for text in (axes.title, axes.xaxis.label):
        box = text.get_window_extent()
        assert box.x0 >= 0
        assert box.x1 <= figure.bbox.width
