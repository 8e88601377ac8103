"""All results as one page of documentation, its pictures beside it."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from labeldp_paper.experiments.result import NOT_PRIVATE, Result
from labeldp_paper.experiments.run import Run
from labeldp_paper.experiments.writing import body, versions

_START = """# Experiments

The paper's tables and figures again, each beside the numbers that the paper prints, with the true
ε in every cell. This page is written by a command; do not edit it:

    labeldp reproduce all {profile}{tables} --docs docs/experiments.md
{stopped}
{note}
Only the releases of "Every mechanism on one table", of "Real data" and of the tables "what the same
ε buys today" were made by `labeldp release`, with certificates.

## Where the numbers come from, and why they differ from the paper's

- **Data.** {data} A stand-in has the paper's columns and the statistics of the first section; not
  its people, nor its correlations.
- **Two slips.** In Table 1 the census row ε = 4 prints 3853 where the theorem gives 3953, and the
  whole Criteo column follows from half of the label bound that is stated. Both are flagged row by
  row below.
- **Accountant.** The paper's theorems are sufficient conditions with loose constants. Ours is the
  exact law of the privacy loss, its worst case over neighbours certified: it allows hundreds of
  times as many bags under the same promise.
- **Fits.** "Adam" is the paper's training of linear models: rate 0.001 falling along a cosine, 200
  epochs, a batch counted in rows. That last reading is an inference; early stopping is left out.
  Least squares is the optimum of the same loss. Networks get as far as their notes say.
- **Size.** {size}
- **Noise.** The tables "as printed" have the paper's noise, and their ε is what it is: usually
  none at all. The tables "ε = 1" and "ε = 4" have as much noise as that ε needs. The simulations of
  sampled-noisy-wtd-LAg draw weights once, as the paper's algorithm does; a release by default draws
  again where a bag's weights are unlucky (the literal algorithm: `--accountant exact-worst-case`).

In pictures "paper against ours" a cell is a point: across what the paper prints, up what came out
here, with bars of one standard deviation over seeds; on the dotted line both are equal. "None" in a
line "ε as printed" means that there is no privacy; the letter leads to the reason below the table.

Cells took {processor:.0f} minutes of processor time ({wall:.0f} by the clock on the wall, which
counts whatever else the machine was doing); seed {seed}; {versions}.
"""


_SIZES = {
    False: """`--quick`: every row and column of every table at the paper's m and k with fewer seeds
  (each note says how many); stand-ins of a million rows and more instead of the paper's rows;
  networks that each see some million rows, at least one epoch, instead of 200 epochs.""",
    True: "`--full`: the paper's seeds, epochs and batches.",
}


_STOPPED = """
It was written with `--finished`, which computes nothing: the run had been stopped before its end,
and what is missing says so.
"""


def write_page(results: Sequence[Result], page: Path, run: Run) -> None:
    """Write the page, and its pictures into a directory of the page's name beside it."""
    pictures = page.with_suffix("")
    pictures.mkdir(parents=True, exist_ok=True)
    parts = [_head(results, run)]
    for result in results:
        for picture in result.pictures:
            drawn = run.out / f"{picture.name}.svg"
            if drawn.is_file():
                shutil.copyfile(drawn, pictures / drawn.name)
        shown = all((pictures / f"{picture.name}.svg").is_file() for picture in result.pictures)
        lines = body(result, f"{pictures.name}/", pictures=shown)
        parts.append("\n".join([f"## {result.title}", "", *lines]))
    partial = page.with_name(f".{page.name}.partial")
    partial.write_text("\n".join(part.rstrip() + "\n" for part in parts), encoding="utf-8")
    partial.replace(page)


def _head(results: Sequence[Result], run: Run) -> str:
    known = {"the census": run.census, "Criteo": run.criteo}
    synthetic = [name for name, file in known.items() if file is None]
    given = [name for name, file in known.items() if file is not None]
    data = ""
    if synthetic:
        data += f"For {' and '.join(synthetic)} the data are SYNTHETIC stand-ins. "
    if given:
        data += f"For {' and '.join(given)} the original files were used. "
    skipped = [result.title for result in results if result.skipped]
    data += f"Skipped: {', '.join(skipped)}." if skipped else "The real tables are named below."
    return _START.format(
        profile="--full" if run.full else "--quick",
        tables="" if run.tables is None else " --data DIR",
        stopped=_STOPPED if run.finished else "",
        note=NOT_PRIVATE,
        data=data,
        size=_SIZES[run.full],
        processor=sum(cell.processor for cell in run.cells.spent.values()) / 60,
        wall=sum(cell.wall for cell in run.cells.spent.values()) / 60,
        seed=run.seed,
        versions=", ".join(f"{name} {value}" for name, value in versions().items()),
    )
