"""Results as files: Parquet for programs, Markdown and pictures for people."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from labeldp.pictures import draw
from labeldp_paper.experiments.cells import replace_file
from labeldp_paper.experiments.result import NOT_PRIVATE, Result, Row, Table


def versions() -> dict[str, str]:
    """What the numbers were computed with."""
    found = {"python": platform.python_version()}
    for name in ("labeldp", "numpy", "scipy", "pyarrow", "torch", "matplotlib"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def write(result: Result, folder: Path, facts: Row, *, plots: bool) -> list[str]:
    """Write the files of one result, replacing those of an earlier run; return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    files = []
    if result.rows:
        stamp = {
            "labeldp.experiment": json.dumps({**facts, "note": NOT_PRIVATE, "data": result.data})
        }
        table = pa.Table.from_pylist(_uniform(list(result.rows))).replace_schema_metadata(stamp)
        replace_file(folder / f"{result.name}.parquet", lambda path: pq.write_table(table, path))
        files.append(f"{result.name}.parquet")
    if plots:
        for picture in result.pictures:
            files += draw(picture, folder)
    text = markdown(result, facts, shown=plots)
    replace_file(folder / f"{result.name}.md", lambda path: path.write_text(text, encoding="utf-8"))
    return [*files, f"{result.name}.md"]


def _uniform(rows: list[Row]) -> list[Row]:
    """The same columns in every row; lists and dictionaries as JSON."""
    names = dict.fromkeys(name for row in rows for name in row)
    return [{name: _plain(row.get(name)) for name in names} for row in rows]


def _plain(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, list | dict) else value


def markdown(result: Result, facts: Row, *, shown: bool) -> str:
    """One result as a page."""
    lines = [f"# {result.title}", "", *body(result, "", pictures=shown)]
    said = "; ".join(f"{name} {value}" for name, value in facts["versions"].items())
    lines += [
        f"{NOT_PRIVATE} Profile {facts['profile']}, seed {facts['seed']}, "
        f"{facts['seconds']:.0f} s. {said}.",
        "",
    ]
    return "\n".join(lines)


def body(result: Result, prefix: str, *, pictures: bool, suffix: str = ".svg") -> list[str]:
    """Data, tables, pictures and notes of a result."""
    lines = [f"Data: {result.data}.", ""]
    if result.skipped:
        lines += [f"Skipped: {result.skipped}.", ""]
    if pictures:
        for picture in result.pictures:
            lines += [f"![{picture.title}]({prefix}{picture.name}{suffix})", ""]
            lines += [result.glances[picture.name], ""] if picture.name in result.glances else []
    for table in result.tables:
        lines += [*_table(table), ""]
    lines += [f"- {note}" for note in result.notes]
    return [*lines, ""] if result.notes else lines


def _table(table: Table) -> list[str]:
    head = "| " + " | ".join(table.header) + " |"
    rule = "|" + "---|" * len(table.header)
    return [
        f"**{table.caption}**",
        "",
        head,
        rule,
        *("| " + " | ".join(_cell(text) for text in line) + " |" for line in table.lines),
        *(["", "; ".join(table.below) + "."] if table.below else []),
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
