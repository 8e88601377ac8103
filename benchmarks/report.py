"""What the benchmarks found, as tables: a pure function of their JSON documents.

Every document is {"benchmark": name, "records": [flat records], "notes": [lines]}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any

Record = dict[str, Any]
Document = dict[str, Any]


@dataclass(frozen=True)
class View:
    """A table to look at; the first column is text."""

    caption: str
    headings: list[str]
    rows: list[list[str]]

    def text(self) -> str:
        """For a terminal."""
        lines = [self.headings, *self.rows]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        sides = [str.ljust, *(str.rjust for _ in widths[1:])]
        padded = (map(lambda side, *cell: side(*cell), sides, line, widths) for line in lines)
        return f"{self.caption}\n" + "\n".join("  ".join(line).rstrip() for line in padded)

    def markdown(self) -> str:
        """For a page."""
        marks = ["---", *("---:" for _ in self.headings[1:])]
        lines = [self.headings, marks, *self.rows]
        return f"**{self.caption}**\n\n" + "\n".join(f"| {' | '.join(line)} |" for line in lines)


def short(value: float | None) -> str:
    """Two or three digits that matter; nothing for nothing."""
    if value is None:
        return ""
    for least, decimals in ((100.0, 0), (10.0, 1), (0.1, 2)):
        if value >= least:
            return f"{value:,.{decimals}f}"
    return f"{value:.2g}"


def share(value: float) -> str:
    return f"{100 * value:.0f} %"


def title(table: str) -> str:
    """What a table is called in print."""
    return f"{table}-like" if table in ("census", "criteo") else table


def signed(value: float) -> str:
    return f"{value:+.0e}"


def views(found: Document) -> Iterator[View]:
    """The tables of a document."""
    if found["records"]:
        yield from _VIEWS[found["benchmark"]](found["records"])


def print_report(found: Document) -> None:
    for view in views(found):
        print(f"\n{view.text()}")
    for note in found["notes"]:
        print(f"! {note}")


def losses(documents: list[Document]) -> list[str]:
    """Where something else is faster than ours; of several numbers of bags, at the largest."""
    lines: dict[str, str] = {}
    for found in documents:
        for record in found["records"]:
            faster = record.get("times_ours", record.get("times_ours_cpu", 1.0)) < 1.0
            if faster and record["way"].partition(",")[0] not in ("ours", "read", "read whole"):
                where = [record.get(key) for key in ("table", "rows", "start")]
                lines[str([found["benchmark"], record["way"], *where])] = _LOSS[found["benchmark"]](
                    record
                )
            if record.get("times_pyarrow", 0.0) > 1.0:
                ratio = short(1.0 / record["times_pyarrow"])
                what = f"{record['bags']:,} bags of numbers that need no drawing"
                lines["writing"] = f"pyarrow, writing {what}: {ratio} × ours"
    return list(lines.values())


def pass_views(records: list[Record]) -> Iterator[View]:
    for name, group in groupby(records, key=lambda r: r["table"]):
        of_table = list(group)
        rows = max(r["rows"] for r in of_table)
        for start, words in (("file", "from Parquet"), ("rows", "XᵀX from encoded rows in memory")):
            chosen = [r for r in of_table if r["rows"] == rows and r["start"] == start]
            columns = of_table[-1]["design_columns"]
            caption = f"{title(name)}, {rows:,} rows, {columns} design columns: {words}"
            yield View(caption, *_ways(chosen, reads=start == "file"))
    yield growth([r for r in records if r["start"] == "file"])


def _ways(records: list[Record], reads: bool) -> tuple[list[str], list[list[str]]]:
    """Headings and lines of a table of ways; reading's share where they read."""
    headings = ["", "seconds", "cpu s", "Mrow/s", "× ours", "× ours, cpu"]
    lines = [
        [
            r["way"] + (" (extrapolated)" if r["extrapolated_from_rows"] else ""),
            *map(short, (r["seconds"], r["cpu_seconds"], r["million_rows_per_second"])),
            *map(short, (r["times_ours"], r["times_ours_cpu"])),
            *((share(r["read_share"]), share(r["read_share_cpu"])) if reads else ()),
        ]
        for r in records
    ]
    return headings + (["reading's share", "of cpu"] if reads else []), lines


def growth(records: list[Record]) -> View:
    """How the pass and a release grow with rows and columns."""
    names = ["read", "read whole", "ours", "plan and release"]
    ways = [way for way in names if any(r["way"] == way for r in records)]
    lines = []
    for (name, rows), group in groupby(records, key=lambda r: (r["table"], r["rows"])):
        found = {r["way"]: r for r in group}
        release = found["plan and release"]
        lines.append(
            [
                name,
                f"{rows:,}",
                str(release["design_columns"]),
                *(short(found[way]["seconds"]) for way in ways),
                short(release["peak_mib"]),
            ]
        )
    headings = ["", "rows", "columns", *ways, "peak MiB"]
    return View("Growing in rows and columns: seconds, and memory of a release", headings, lines)


def large_views(records: list[Record]) -> Iterator[View]:
    lines = [
        [
            f"{r['rows']:,}",
            f"{r['bags']:,}",
            *map(short, (r["read_seconds"], r["read_whole_seconds"])),
            *map(short, (r["plan_seconds"], r["seconds"], r["command_seconds"])),
            *map(short, (r["times_read"], r["times_read_whole"], r["peak_mib"])),
        ]
        for r in records
    ]
    headings = ["rows", "bags", "read", "read whole", "plan", "plan and release", "command"]
    headings += ["× read", "× read whole", "peak MiB"]
    yield View("A whole release of a census-like table: seconds", headings, lines)


def command_views(records: list[Record]) -> Iterator[View]:
    lines = [
        [
            title(r["table"]),
            f"{r['rows']:,}",
            *(str(r[key]) for key in ("design_columns", "passes")),
            f"{r['gap']:.3f}" if r["gap"] else "",
            *map(short, (r["read_cpu_seconds"], r["wtd_flag_cpu_seconds"])),
            *map(short, (r["default_cpu_seconds"], r["times_wtd_flag"], r["times_read"])),
        ]
        for r in records
    ]
    headings = ["table", "rows", "columns", "passes", "gap", "read", "wtd-flag", "default"]
    headings += ["× wtd-flag", "× read"]
    yield View("The default command: seconds of all processors", headings, lines)


def draw_views(records: list[Record]) -> Iterator[View]:
    lines = []
    for key, group in groupby(records, key=lambda r: (r["table"], r["rows"], r["bags"])):
        found = {r["way"]: r for r in group}
        ours, sklearn = found["ours"], found["sklearn"]
        lines.append(
            [
                key[0],
                f"{key[1]:,}",
                str(ours["design_columns"]),
                f"{key[2]:,}",
                short(ours["seconds"]),
                short(ours["plan_seconds"]),
                *(short(found[way]["times_ours"]) for way in ("loop", "blocked", "sklearn")),
                short(found["blocked"]["break_even"]),
                short(ours["memory_mib"] / 1024),
                short(sklearn["memory_mib"] / 1024),
            ]
        )
    headings = [
        "",
        "rows",
        "columns",
        "bags",
        "ours, s",
        "its plan",
        "loop, × ours",
        "blocked, × ours",
    ]
    headings += ["sklearn, × ours", "break-even bags", "ours, GiB", "sklearn's weights, GiB"]
    yield View("Plan and release against drawing the weights (extrapolated)", headings, lines)


def writing_views(records: list[Record]) -> Iterator[View]:
    added = [None] + [
        (more["seconds"] - less["seconds"]) / (more["pyarrow_seconds"] - less["pyarrow_seconds"])
        for less, more in pairwise(records)
    ]
    lines = [
        [
            f"{r['bags']:,}",
            str(r["columns"]),
            short(r["seconds"]),
            short(r["pyarrow_seconds"]),
            short(r["same_file_seconds"]),
            short(r["times_pyarrow"]),
            short(r["times_pyarrow_cpu"]),
            short(extra),
            short(r["million_bags_per_second"]),
            short(r["file_mib"]),
            short(r["peak_mib"]),
        ]
        for r, extra in zip(records, added, strict=True)
    ]
    headings = ["bags", "columns", "release, s", "pyarrow, s", "same file, s"]
    headings += ["× pyarrow", "× pyarrow, cpu", "added, × pyarrow's"]
    headings += ["Mbag/s", "file, MiB", "peak, MiB"]
    caption = f"Drawing and writing a release ({records[0]['rows']:,} rows) against writing alone"
    yield View(caption, headings, lines)


def bags_views(records: list[Record]) -> Iterator[View]:
    """Ours has a constant part, the accountant's; what more bags add is shown beside."""
    slow = ("ours, one by one", "loop")
    found = {
        bags: {r["way"]: r for r in group}
        for bags, group in groupby(records, key=lambda r: r["bags"])
    }
    added: list[list[float | None]] = [[None, None]] + [
        [(more[w]["seconds"] - less[w]["seconds"]) / (bags[1] - bags[0]) for w in ("ours", "loop")]
        for bags, (less, more) in zip(pairwise(found), pairwise(found.values()), strict=True)
    ]
    lines = [
        [
            f"{bags:,}",
            *(short(ways[way]["seconds"]) for way in ("ours", "ours, verify", *slow)),
            f"{ways['ours']['bags_per_second']:,.0f}",
            *(short(ways[way]["times_ours"]) for way in slow),
            *(short(None if each is None else 1e6 * each) for each in extra),
        ]
        for (bags, ways), extra in zip(found.items(), added, strict=True)
    ]
    first = records[0]
    caption = (
        f"Bags of {first['bag_size']:,} of {first['rows']:,} rows, {title(first['table'])}: plan "
        "and release against bag by bag (one by one: extrapolated)"
    )
    headings = ["bags", "ours, s", "verify, s", "one by one, s", "loop, s", "ours, bag/s"]
    headings += ["one by one, × ours", "loop, × ours", "µs a bag added, ours", "loop"]
    yield View(caption, headings, lines)


def accountant_views(records: list[Record]) -> Iterator[View]:
    lines = [
        [
            r["way"],
            f"{r['bags']:,}",
            f"{r['delta']:.2g}",
            short(r["milliseconds"]),
            short(r["times_ours"]),
            signed(r["relative_error"]),
        ]
        for r in records
    ]
    headings = ["", "bags", "δ(ε)", "ms", "× ours", "relative error"]
    yield View("δ(ε) of one neighbour: time and error", headings, lines)


def neural_views(records: list[Record]) -> Iterator[View]:
    lines = [
        [r["way"], *map(short, (r["million_rows_per_cpu_second"], r["times_ours_cpu"]))]
        for r in records
    ]
    first = records[0]
    caption = f"One epoch over {first['bags']:,} bags, {first['rows']:,} rows, one core"
    yield View(caption, ["", "Mrow per cpu second", "× ours, cpu"], lines)


def _loss(what: str) -> Callable[[Record], str]:
    def line(r: Record) -> str:
        ratio = r.get("times_ours", r.get("times_ours_cpu"))
        name = title(r.get("table", ""))
        return f"{r['way']}, {what.format(**r, name=name)}: {short(ratio)} × ours"

    return line


_VIEWS: dict[str, Callable[[list[Record]], Iterator[View]]] = {
    "pass": pass_views,
    "large": large_views,
    "default_command": command_views,
    "draw": draw_views,
    "writing": writing_views,
    "bags": bags_views,
    "accountant": accountant_views,
    "neural_bags": neural_views,
}
_LOSS = {
    "pass": _loss("XᵀX of {name}, {rows:,} rows, from the {start}"),
    "draw": _loss("{bags:,} bags of {name}, {rows:,} rows"),
    "bags": _loss("{bags:,} bags of {bag_size:,} of {rows:,} rows, no bounds and no certificate"),
    "accountant": _loss("{bags:,} bags, relative error {relative_error:+.0e}"),
    "neural_bags": _loss("{bags:,} bags"),
}
