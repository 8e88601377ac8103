"""labeldp reproduce"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp import InputError
from labeldp.cli import (
    REMARKS,
    Json,
    argument,
    emit_facts,
    emit_json,
    emit_table,
    note,
    progress,
    told,
)
from labeldp.mechanisms.options import option

if TYPE_CHECKING:
    from labeldp_paper.experiments.result import Result
    from labeldp_paper.experiments.run import Run


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Which data."""

    census: Path | None = option(None, "The census as Parquet; default: a synthetic stand-in.")
    criteo: Path | None = option(None, "The Criteo log as Parquet; default: a stand-in.")
    data: Path | None = option(
        None,
        "Directory of real tables. For statistics also one table, with --label.",
        envvar="LABELDP_REAL_DATA",
    )
    label: str | None = option(None, "The column of the labels, for statistics of one table.")

    def check(self, name: str) -> None:
        """Refuse one table where it is of no use."""
        if self.data is not None and self.data.is_file() and name != "statistics":
            raise InputError(
                "`data` is one table; that is for reproduce statistics, give a directory"
            )


_NONE = Tables()


def reproduce(
    name: Annotated[
        str,
        argument(
            "statistics, table1, random-projection, figure1, figure2, sampled, noisy, "
            "bags-table, real-data, or all."
        ),
    ],
    out: Annotated[
        Path, told("Directory of results; finished cells there are not repeated.")
    ] = Path("reproduction"),
    full: Annotated[bool, told("The paper's sizes and seeds: much longer.")] = False,
    quick: Annotated[bool, told("Smaller grids: minutes. The default.")] = False,
    seed: Annotated[int, told("Of stand-ins, splits, bags and weights.", min=0)] = 0,
    tables: Tables = _NONE,
    docs: Annotated[Path | None, told("Also write all results as this Markdown page.")] = None,
    finished: Annotated[bool, told("Compute nothing: show what finished cells give.")] = False,
    no_plots: Annotated[bool, told("No pictures; needs no matplotlib.")] = False,
    json: Json = False,
) -> None:
    """The paper's tables and figures again, with the true ε beside every number."""
    from labeldp.pictures import need_matplotlib
    from labeldp_paper.experiments import find
    from labeldp_paper.experiments.result import NOT_PRIVATE
    from labeldp_paper.experiments.run import Run

    if full and quick:
        raise InputError("--full and --quick exclude each other; give one")
    if docs is not None and name != "all":
        raise InputError("--docs is a page of all experiments; use it with reproduce all")
    tables.check(name)
    names = find(name)
    if not no_plots and set(names) - _WITHOUT_PICTURES:
        need_matplotlib()
    out.mkdir(parents=True, exist_ok=True)
    given = tables.census, tables.criteo, tables.data
    run = Run(out, progress, full, seed, *given, label=tables.label, finished=finished)
    started = time.monotonic()
    try:
        results = {one: _one(one, run, plots=not no_plots, quiet=json) for one in names}
    except KeyboardInterrupt:
        note(f"labeldp: stopped; finished cells are kept in {out}, run again to go on")
        raise SystemExit(_INTERRUPTED) from None
    if docs is not None:
        from labeldp_paper.experiments.page import write_page

        write_page([result for result, _ in results.values()], docs, run)
    if json:
        emit_json(
            {
                "note": NOT_PRIVATE,
                "profile": run.profile,
                "seed": seed,
                "out": str(out),
                "seconds": time.monotonic() - started,
                "results": {one: _document(*found) for one, found in results.items()},
            }
        )


_INTERRUPTED = 130
_WITHOUT_PICTURES = {"statistics", "random-projection"}


def _one(name: str, run: Run, *, plots: bool, quiet: bool) -> tuple[Result, list[str]]:
    from labeldp import LabelDPWarning
    from labeldp_paper.experiments import EXPERIMENTS
    from labeldp_paper.experiments.cells import UnfinishedError
    from labeldp_paper.experiments.result import Result
    from labeldp_paper.experiments.writing import versions, write

    started, before = time.monotonic(), set(run.cells.spent)
    try:
        with warnings.catch_warnings():
            # poor releases are drawn on purpose, and the tables say how poor
            warnings.simplefilter("ignore", LabelDPWarning)
            result = EXPERIMENTS[name](run)
    except UnfinishedError as problem:
        result = Result(
            name, name, "none", skipped=f"the run was stopped before its end: {problem}"
        )
    spent = sum(cell.wall for path, cell in run.cells.spent.items() if path not in before)
    seconds = max(time.monotonic() - started, spent)
    facts = {
        "profile": run.profile,
        "seed": run.seed,
        "versions": versions(),
        "seconds": round(seconds, 1),
    }
    files = write(result, run.out, facts, plots=plots)
    note(f"{name}: {time.monotonic() - started:.0f} s, {', '.join(files)} in {run.out}")
    if not quiet:
        _show(result)
    return result, files


def _document(result: Result, files: list[str]) -> dict[str, Any]:
    return {
        "title": result.title,
        "data": result.data,
        "rows": list(result.rows),
        "notes": list(result.notes),
        "skipped": result.skipped,
        "files": files,
    }


def _show(result: Result) -> None:
    emit_facts(result.title, [("data", result.data), ("skipped", result.skipped)])
    for table in result.tables:
        header = [REMARKS if "because" in name else name for name in table.header]
        emit_table(table.caption, header, table.lines)
        if table.below:
            print(f"{'; '.join(table.below)}.\n")
    for text in (*result.glances.values(), *result.notes):
        print(f"{text}\n")
