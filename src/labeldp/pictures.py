"""Plots from plain values: SVG and PNG by matplotlib, the extra "plots".

A `Picture` is what is shown, without a word on how; `draw` writes it as files. Series differ by
mark and line as well as by colour, so that they are told apart in black and white too. NumPy is not
imported: commands import this module before they set up its threads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import Any

from labeldp.errors import MissingExtraError

__all__ = ["Curve", "Picture", "draw", "need_matplotlib", "render"]

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's, which people with any colour vision can tell apart."""
_DARK_COLOURS = ("#56B4E9", "#E69F00", "#2CC79A", "#E9A6CE", "#F0E442", "#9AD0F5")
"""The same or lighter ones, for dark paper."""
_MARKS = "osD^vP"
_LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
_MIN_LOG_RATIO = 4.0
"""Values that differ by less need no logarithmic axis."""
_TITLE_LETTERS, _AXIS_LETTERS = 64, 44
"""Letters of a line that fit above a plot, and below one with long names on its left."""
_PAPER_AND_INK = {False: ("#ffffff", "#1a1a1a"), True: ("#16191d", "#e6e6e6")}


@dataclass(frozen=True)
class Curve:
    """Points of a picture, with a band or bars around them."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    style: str = "points"
    """points: marks with bars; joined: these with a line; line: a line with a band; band: that
    alone; bars: thin bars alone."""
    colour: int = 0
    reach: tuple[float, ...] = ()
    """Half the length of a bar along x through each mark."""


@dataclass(frozen=True)
class Picture:
    """A plot, as plain values."""

    name: str
    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    levels: tuple[tuple[str, float], ...] = ()
    """Horizontal lines."""
    log_x: bool = False
    log_y: bool = False
    names: tuple[str, ...] = ()
    """Of the places 0, 1, … on the x axis, if these are not numbers."""
    sideways: bool = False
    """Whether x goes down the page and y across, for names that are long."""


def need_matplotlib() -> Any:
    """Return matplotlib's class of figures; call it before the work, because it may be missing."""
    try:
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] != "matplotlib":
            raise
        raise MissingExtraError("plotting", "plots") from None
    rcParams["svg.hashsalt"] = "labeldp"  # the same picture gives the same bytes
    return Figure


def draw(picture: Picture, folder: Path, *, dark: bool = False) -> list[str]:
    """Write NAME.svg and NAME.png, and NAME-dark.svg if asked; return the names of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    figure = render(picture)
    figures = {f"{picture.name}.svg": figure, f"{picture.name}.png": figure}
    if dark:
        figures[f"{picture.name}-dark.svg"] = render(picture, dark=True)
    for name, drawn in figures.items():
        partial = folder / f".partial-{name}"
        drawn.savefig(partial, metadata={"Date": None} if name.endswith("svg") else {}, dpi=110)
        partial.replace(folder / name)
    return list(figures)


def render(picture: Picture, *, dark: bool = False) -> Any:
    """Return the matplotlib figure."""
    sideways, (paper, ink) = picture.sideways, _PAPER_AND_INK[dark]
    height = max(4.4, 1.3 + 0.26 * len(picture.names)) if sideways else 4.4
    figure = need_matplotlib()(figsize=(7.2, height), layout="constrained", facecolor=paper)
    axes, palette = figure.add_subplot(facecolor=paper), _DARK_COLOURS if dark else _COLOURS
    for curve in picture.curves:
        draw_curve = _draw_line if curve.style in ("line", "band") else _draw_points
        draw_curve(axes, curve, palette[curve.colour % len(palette)], sideways)
    line = axes.axvline if sideways else axes.axhline
    for place, (label, level) in enumerate(picture.levels):
        style = (":", "--")[place % 2]
        line(level, color=ink, alpha=0.7, lw=1, ls=style, label=label or None, zorder=0)
    along, across = (axes.yaxis, axes.xaxis) if sideways else (axes.xaxis, axes.yaxis)
    _set_ticks(across, axes.set_xscale if sideways else axes.set_yscale, picture.log_y)
    if picture.names:
        along.set_ticks(range(len(picture.names)), picture.names)
        if sideways:
            axes.set_ylim(len(picture.names) - 0.5, -0.5)
        elif len(picture.names) > 6:
            axes.tick_params(axis="x", rotation=60)
    else:
        _set_ticks(along, axes.set_xscale, picture.log_x)
    labels = (picture.y_label, picture.x_label) if sideways else (picture.x_label, picture.y_label)
    axes.set_title(fill(picture.title, _TITLE_LETTERS), fontsize=10, color=ink)
    axes.set_xlabel(fill(labels[0], _AXIS_LETTERS), color=ink)
    axes.set_ylabel(labels[1], color=ink)
    axes.grid(alpha=0.25, lw=0.5, color=ink)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(ink)
    axes.tick_params(colors=ink, which="both")
    if axes.get_legend_handles_labels()[1]:
        corner = "outside lower center"
        figure.legend(fontsize=8, frameon=False, loc=corner, ncols=2, labelcolor=ink)
    return figure


def _draw_points(axes: Any, curve: Curve, colour: str, sideways: bool) -> None:
    """Draw marks with bars, joined by a line if asked, or thin bars alone."""
    bars = None
    if curve.low:
        below = [max(0.0, y - low) for y, low in zip(curve.y, curve.low, strict=True)]
        above = [max(0.0, high - y) for y, high in zip(curve.y, curve.high, strict=True)]
        bars = [below, above]
    reach = curve.reach or None
    alone = curve.style == "bars"
    data = {"x": curve.x, "y": curve.y, "xerr": reach, "yerr": bars}
    if sideways:
        data = {"x": curve.y, "y": curve.x, "xerr": bars, "yerr": reach}
    axes.errorbar(
        **data, marker="none" if alone else _MARKS[curve.colour % len(_MARKS)],
        ls="-" if curve.style == "joined" else "none", color=colour, ms=4.5, lw=1,
        elinewidth=1 if alone else 2, capsize=2, label=curve.label,
    )  # fmt: skip


def _draw_line(axes: Any, curve: Curve, colour: str, _sideways: bool) -> None:
    """Draw a line with a light band, or a hatched band that differs from it without colour."""
    band: dict[str, Any] = {"color": colour, "edgecolor": None, "alpha": 0.25}
    if curve.style == "line":
        style = _LINES[curve.colour % len(_LINES)]
        axes.plot(curve.x, curve.y, color=colour, lw=1.3, ls=style, label=curve.label)
    else:
        band = {"facecolor": "none", "edgecolor": colour, "hatch": "////", "alpha": 0.45}
        band["label"] = curve.label
    if curve.low:
        axes.fill_between(curve.x, curve.low, curve.high, lw=0, **band)


def _set_ticks(axis: Any, set_scale: Callable[[str], None], wants_log: bool) -> None:
    """Set a logarithmic axis where values differ much, with plain numbers, not powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = axis.get_data_interval()
    if not wants_log or low <= 0 or high / low < _MIN_LOG_RATIO:
        axis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
        return
    set_scale("log")
    few = (1.0, 2.0, 5.0) if high / low < 500 else (1.0,)
    steps = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high / low < 10 else few
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())
