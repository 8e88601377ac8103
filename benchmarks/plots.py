"""The page's plots as SVG; matplotlib comes with the extra `plots`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from report import short, title

Record = dict[str, Any]

OURS, READING, OTHERS = (
    "#0b6e4f",
    "#777777",
    ("#c8553d", "#3d5a98", "#b8860b", "#7b4b94", "#4b9494"),
)
STYLE = {
    "svg.hashsalt": "labeldp",
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.grid.which": "major",
    "grid.color": "#e4e4e4",
    "legend.frameon": False,
    "figure.facecolor": "white",
}


def draw_plots(documents: list[dict[str, Any]], folder: Path, form: str = "svg") -> None:
    """One file for each plot whose benchmark is among the documents."""
    try:
        import matplotlib as mpl
    except ModuleNotFoundError:
        raise SystemExit(
            "the plots need matplotlib; pip install 'labeldp[plots]', then run again with --load"
        ) from None
    mpl.use("Agg")
    records = {found["benchmark"]: found["records"] for found in documents}
    folder.mkdir(parents=True, exist_ok=True)
    with mpl.rc_context(STYLE):
        for name, (benchmark, plot) in PLOTS.items():
            if records.get(benchmark):
                figure = plot(records[benchmark])
                metadata = {"Date": None} if form == "svg" else None
                figure.savefig(folder / f"{name}.{form}", metadata=metadata)


def of_way(records: Iterable[Record], way: str) -> list[Record]:
    return [record for record in records if record["way"] == way]


def panels(count: int, height: float = 3.4) -> tuple[Any, list[Any]]:
    """A row of plots side by side."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(max(5.6, 3.4 * count), height), layout="constrained")
    return figure, list(figure.subplots(1, count, sharey=True, squeeze=False)[0])


def log_axes(axes: Any, x: list[float], label: str) -> None:
    """Both axes in logarithms, with the measured places as ticks."""
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_xticks(x, [words(value) for value in x])
    axes.tick_params(axis="x", which="minor", bottom=False)
    axes.set_xlabel(label)


def words(value: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:.3g}{unit}"
    return f"{value:.3g}"


def rows_plot(records: list[Record]) -> Any:
    """Seconds against rows, table by table, with a line that doubles when rows do."""
    records = [r for r in records if r["start"] == "file"]
    names = list(dict.fromkeys(r["table"] for r in records))[:3]
    figure, plots = panels(len(names))
    lines = {
        "plan and release": (OURS, "o-", "plan and release"),
        "ours": (OURS, "s--", "our pass"),
        "read whole": (READING, "^:", "reading, read_table"),
        "read": (READING, "v:", "reading, iter_batches"),
    }
    for axes, name in zip(plots, names, strict=True):
        of_table = [r for r in records if r["table"] == name]
        for way, (colour, mark, label) in lines.items():
            found = of_way(of_table, way)
            x, y = [r["rows"] for r in found], [r["seconds"] for r in found]
            axes.plot(x, y, mark, color=colour, label=label, markersize=5)
        last = of_way(of_table, "ours")[-1]
        guide = [last["seconds"] * rows / last["rows"] for rows in x]
        axes.plot(x, guide, color="black", linewidth=0.8, label="twice the rows, twice the time")
        log_axes(axes, x, "rows")
        axes.set_title(f"{title(name)}, {last['design_columns']} columns", fontsize=10)
    plots[0].set_ylabel("seconds")
    figure.legend(*plots[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def ways_plot(records: list[Record]) -> Any:
    """Other ways to the same sums, as multiples of ours from the same start."""
    ways = {
        "duckdb, from Parquet": ("file", "duckdb"),
        "tabmat, from Parquet": ("file", "tabmat"),
        "tabmat": ("rows", "tabmat"),
        "scipy": ("rows", "scipy"),
        "dense": ("rows", "dense"),
    }
    names = list(dict.fromkeys(r["table"] for r in records))
    figure, plots = panels(1, height=1.4 + 0.9 * len(names))
    axes = plots[0]
    colours = dict(zip(ways, OTHERS, strict=True))
    height = 0.16
    for place, name in enumerate(names):
        largest = max(r["rows"] for r in records if r["table"] == name)
        for offset, (way, (start, called)) in enumerate(ways.items()):
            wanted = (name, largest, start)
            these = (r for r in records if (r["table"], r["rows"], r["start"]) == wanted)
            found = of_way(these, called)
            if found:
                at, ratio = place + (offset - 2) * height, found[0]["times_ours"]
                label = None if place else way
                axes.barh(at, ratio - 1.0, height, left=1.0, color=colours[way], label=label)
                end = max(ratio, 1.0) * 1.06
                axes.text(end, at, short(ratio), va="center", fontsize=8, backgroundcolor="none")
    axes.axvline(1.0, color=OURS, linewidth=1.5, label="ours")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.set_yticks(range(len(names)), [title(name) for name in names])
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
    axes.margins(x=0.15)
    axes.set_xlabel("time as a multiple of ours from the same start")
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure


def large_plot(records: list[Record]) -> Any:
    """Seconds of a whole release, and of reading, against rows: straight lines."""
    figure, plots = panels(1)
    axes, x = plots[0], [r["rows"] / 1e6 for r in records]
    for key, colour, mark, label in (
        ("command_seconds", OURS, "o:", "the command, imports included"),
        ("seconds", OURS, "o-", "plan and release"),
        ("read_whole_seconds", READING, "^:", "reading, read_table"),
        ("read_seconds", READING, "v:", "reading, iter_batches"),
    ):
        axes.plot(x, [r[key] for r in records], mark, color=colour, label=label)
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.set_xlabel(f"million rows ({records[0]['bags']:,} bags)")
    axes.set_ylabel("seconds")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def draws_plot(records: list[Record]) -> Any:
    """Seconds against bags: ours and the ways that draw weights."""
    rows = max(r["rows"] for r in records)
    names = list(dict.fromkeys(r["table"] for r in records))
    figure, plots = panels(len(names))
    lines = {
        "loop": (OTHERS[0], "^-", "the paper's loop"),
        "sklearn": (OTHERS[2], "v-", "GaussianRandomProjection"),
        "blocked": (OTHERS[1], "s-", "blocked product"),
        "ours": (OURS, "o-", "ours: plan and release"),
    }
    for axes, name in zip(plots, names, strict=True):
        of_table = [r for r in records if (r["table"], r["rows"]) == (name, rows)]
        for way, (colour, mark, label) in lines.items():
            found = of_way(of_table, way)
            x, y = [r["bags"] for r in found], [r["seconds"] for r in found]
            axes.plot(x, y, mark, color=colour, label=label, markersize=5)
        log_axes(axes, x, "bags")
        axes.set_title(f"{title(name)}, {rows:,} rows", fontsize=10)
    plots[0].set_ylabel("seconds (ours measured,\nothers extrapolated)")
    figure.legend(*plots[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    return figure


def bags_plot(records: list[Record]) -> Any:
    """Seconds of streaming a release against seconds of writing alone."""
    figure, plots = panels(1)
    axes, x = plots[0], [r["bags"] for r in records]
    axes.plot(x, [r["seconds"] for r in records], "o-", color=OURS, label="release_to")
    alone = [r["pyarrow_seconds"] for r in records]
    axes.plot(x, alone, "v:", color=READING, label="pyarrow writes as much")
    log_axes(axes, x, f"bags ({records[0]['columns']} columns each)")
    axes.set_ylabel("seconds")
    axes.legend()
    return figure


PLOTS: dict[str, tuple[str, Callable[[list[Record]], Any]]] = {
    "rows": ("pass", rows_plot),
    "ways": ("pass", ways_plot),
    "large": ("large", large_plot),
    "draws": ("draw", draws_plot),
    "bags": ("writing", bags_plot),
}
