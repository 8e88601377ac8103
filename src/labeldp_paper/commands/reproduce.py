"""labeldp reproduce"""

from __future__ import annotations

import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from labeldp import InputError
from labeldp.cli.options import Command, argument, json_option, option
from labeldp.cli.output import REMARKS, emit_facts, emit_json, emit_table, note, progress
from labeldp.pictures import need_matplotlib

if TYPE_CHECKING:
    from labeldp_paper.experiments.result import Result
    from labeldp_paper.experiments.run import Run


@click.command(cls=Command)
@argument(
    "name",
    "statistics, table1, random-projection, figure1, figure2, sampled, noisy, bags-table, "
    "real-data, or all.",
)
@option(
    "--out",
    type=Path,
    default=Path("reproduction"),
    help="Directory of results (default: reproduction); finished cells there are not repeated.",
)
@option("--full", is_flag=True, help="Use the paper's sizes and seeds; takes much longer.")
@option("--quick", is_flag=True, help="Use smaller grids; takes minutes (default).")
@option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    help="Seed of stand-ins, splits, bags and weights (default: 0).",
)
@option("--census", type=Path, help="The census as Parquet (default: a synthetic stand-in).")
@option("--criteo", type=Path, help="The Criteo log as Parquet (default: a stand-in).")
@option(
    "--data",
    type=Path,
    envvar="LABELDP_REAL_DATA",
    help="Directory of real tables; for statistics also one table, with --label.",
)
@option("--label", metavar="COLUMN", help="The label column, for statistics of one table.")
@option("--docs", type=Path, help="Write all results to this Markdown page, too.")
@option("--finished", is_flag=True, help="Compute nothing; show the results of finished cells.")
@option("--no-plots", is_flag=True, help="Draw no pictures; needs no matplotlib.")
@json_option
def reproduce(
    name: str,
    out: Path,
    full: bool,
    quick: bool,
    seed: int,
    census: Path | None,
    criteo: Path | None,
    data: Path | None,
    label: str | None,
    docs: Path | None,
    finished: bool,
    no_plots: bool,
    as_json: bool,
) -> None:
    """Reproduce the paper's tables and figures, with the true ε beside every number."""
    from labeldp_paper.experiments import find
    from labeldp_paper.experiments.result import NOT_PRIVATE
    from labeldp_paper.experiments.run import Run

    if full and quick:
        raise InputError("--full and --quick exclude each other; give one")
    if docs is not None and name != "all":
        raise InputError("--docs is a page of all experiments; use it with reproduce all")
    if data is not None and data.is_file() and name != "statistics":
        raise InputError("`data` is one table; that is for reproduce statistics, give a directory")
    names = find(name)
    if not no_plots and set(names) - _WITHOUT_PICTURES:
        need_matplotlib()
    out.mkdir(parents=True, exist_ok=True)
    run = Run(out, progress, full, seed, census, criteo, data, label=label, finished=finished)
    started = time.monotonic()
    try:
        results = {one: _one(one, run, plots=not no_plots, quiet=as_json) for one in names}
    except KeyboardInterrupt:
        note(f"labeldp: stopped; finished cells are kept in {out}, run again to go on")
        raise SystemExit(_INTERRUPTED) from None
    if docs is not None:
        from labeldp_paper.experiments.page import write_page

        write_page([result for result, _ in results.values()], docs, run)
    if as_json:
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
