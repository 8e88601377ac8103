"""Pictures from plain values: SVG and PNG by matplotlib, the extra "plots"."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from labeldp.errors import MissingExtraError
from labeldp_paper.experiments.result import Curve, Picture

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
"""Okabe and Ito's, which people with any colour vision can tell apart."""
_MARKS = "osD^vP"
_MUCH = 4.0
"""Values that differ by less need no logarithmic axis."""


def need_matplotlib() -> None:
    """Refuse before the work, not after it."""
    _pyplot()


def draw(picture: Picture, folder: Path) -> list[str]:
    """Write the picture as NAME.svg and NAME.png."""
    figure = render(picture)
    names = [f"{picture.name}.svg", f"{picture.name}.png"]
    for name in names:
        partial = folder / f".partial-{name}"
        facts = {"Date": None} if name.endswith("svg") else {}
        figure.savefig(partial, metadata=facts, dpi=110)
        partial.replace(folder / name)
    return names


def render(picture: Picture) -> Any:
    """The matplotlib figure."""
    figure_class = _pyplot()
    figure = figure_class(figsize=(7.2, 4.4), layout="constrained")
    axes = figure.add_subplot()
    for curve in picture.curves:
        _add(axes, curve)
    for place, (label, level) in enumerate(picture.levels):
        axes.axhline(level, color="0.35", lw=1, ls=(":", "--")[place % 2], label=label, zorder=0)
    for wanted, axis, change in (
        (picture.log_x, axes.xaxis, axes.set_xscale),
        (picture.log_y, axes.yaxis, axes.set_yscale),
    ):
        _ticks(axis, change, wanted)
    axes.set(title=picture.title, xlabel=picture.x_label, ylabel=picture.y_label)
    axes.title.set_fontsize(10)
    axes.grid(alpha=0.25, lw=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(fontsize=8, frameon=False, loc="best")
    return figure


def _add(axes: Any, curve: Curve) -> None:
    colour = _COLOURS[curve.colour % len(_COLOURS)]
    if curve.style == "line":
        axes.plot(curve.x, curve.y, color=colour, lw=1.3, label=curve.label)
        if curve.low:
            axes.fill_between(curve.x, curve.low, curve.high, color=colour, alpha=0.15, lw=0)
        return
    bars = None
    if curve.low:
        below = [max(0.0, y - low) for y, low in zip(curve.y, curve.low, strict=True)]
        above = [max(0.0, high - y) for y, high in zip(curve.y, curve.high, strict=True)]
        bars = [below, above]
    mark = _MARKS[curve.colour % len(_MARKS)]
    joined = "-" if curve.style == "joined" else ""
    axes.errorbar(
        curve.x, curve.y, bars, fmt=mark + joined, color=colour, ms=4.5, lw=1, capsize=2,
        label=curve.label,
    )  # fmt: skip


def _ticks(axis: Any, change: Callable[[str], None], wanted: bool) -> None:
    """A logarithmic axis where values differ much, with plain numbers instead of powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

    low, high = axis.get_data_interval()
    if not wanted or low <= 0 or high / low < _MUCH:
        axis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10]))
        return
    change("log")
    few = (1.0, 2.0, 5.0) if high / low < 500 else (1.0,)
    steps = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if high / low < 10 else few
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def _pyplot() -> Any:
    try:
        from matplotlib import rcParams
        from matplotlib.figure import Figure
    except ModuleNotFoundError as problem:
        if (problem.name or "").partition(".")[0] != "matplotlib":
            raise
        raise MissingExtraError("plotting", "plots") from None
    rcParams["svg.hashsalt"] = "labeldp"  # the same picture gives the same bytes
    return Figure
