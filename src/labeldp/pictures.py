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
_MARKS = "osD^vP"
_LINES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (1, 1)))
_MIN_LOG_RATIO = 4.0
"""Values that differ by less need no logarithmic axis."""
_LETTERS = 64
"""Letters of a line that fit above or below a plot."""


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


def draw(picture: Picture, folder: Path) -> list[str]:
    """Write NAME.svg and NAME.png; return the names of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    figure, names = render(picture), [f"{picture.name}.svg", f"{picture.name}.png"]
    for name in names:
        metadata = {"Date": None} if name.endswith("svg") else {}
        figure.savefig(folder / name, metadata=metadata, dpi=110)
    return names


def render(picture: Picture) -> Any:
    """Return the matplotlib figure."""
    figure = need_matplotlib()(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for curve in picture.curves:
        draw_curve = _draw_line if curve.style in ("line", "band") else _draw_points
        draw_curve(axes, curve, _COLOURS[curve.colour % len(_COLOURS)])
    for place, (label, level) in enumerate(picture.levels):
        style = (":", "--")[place % 2]
        axes.axhline(level, color="k", alpha=0.7, lw=1, ls=style, label=label or None, zorder=0)
    _set_ticks(axes.yaxis, axes.set_yscale, picture.log_y)
    if picture.names:
        axes.set_xticks(range(len(picture.names)), picture.names)
        if len(picture.names) > 6:
            axes.tick_params(axis="x", rotation=90)
    else:
        _set_ticks(axes.xaxis, axes.set_xscale, picture.log_x)
    axes.set_title(fill(picture.title, _LETTERS), fontsize=10)
    axes.set_xlabel(fill(picture.x_label, _LETTERS))
    axes.set_ylabel(picture.y_label)
    axes.grid(alpha=0.25, lw=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    if axes.get_legend_handles_labels()[1]:
        figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=2)
    return figure


def _draw_points(axes: Any, curve: Curve, colour: str) -> None:
    """Draw marks with bars, joined by a line if asked, or thin bars alone."""
    bars = None
    if curve.low:
        below = [max(0.0, y - low) for y, low in zip(curve.y, curve.low, strict=True)]
        above = [max(0.0, high - y) for y, high in zip(curve.y, curve.high, strict=True)]
        bars = [below, above]
    alone = curve.style == "bars"
    axes.errorbar(
        curve.x, curve.y, xerr=curve.reach or None, yerr=bars,
        marker="none" if alone else _MARKS[curve.colour % len(_MARKS)],
        ls="-" if curve.style == "joined" else "none", color=colour, ms=4.5, lw=1,
        elinewidth=1 if alone else 2, capsize=2, label=curve.label,
    )  # fmt: skip


def _draw_line(axes: Any, curve: Curve, colour: str) -> None:
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
