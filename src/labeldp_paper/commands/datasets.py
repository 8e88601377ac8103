"""labeldp datasets"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from labeldp.cli.options import Command, argument, column_list, json_option, option
from labeldp.cli.output import emit_facts, emit_json, progress
from labeldp.display import number

if TYPE_CHECKING:
    from labeldp_paper.datasets.making import Made

_LOG_BASE = 2.0


@click.command(cls=Command)
@argument("name", "The dataset to make; without it the datasets are listed.", required=False)
@argument("files", "Its original files; none if it is synthetic.", type=Path, nargs=-1)
@option("--out", type=Path, help="The new .parquet file; if synthetic also .dat or .tsv.")
@option("--rows", type=int, help="Rows of a synthetic dataset.")
@option(
    "--seed", type=int, default=0, help="Seed of synthetic rows and of the projection (default: 0)."
)
@option(
    "--encoding",
    metavar="NAME",
    default="levels",
    help="levels (default), or projection: categories as ⌈log₂ L⌉ random numbers.",
)
@option(
    "--log-base",
    type=float,
    default=_LOG_BASE,
    help="Criteo: base of the logarithm in (log z)² (default: 2).",
)
@option("--keep-zero-weeks", is_flag=True, help="Census: keep people without weeks of work.")
@option(
    "--codebook", type=Path, help="IPUMS: the DDI codebook (default: the one beside the extract)."
)
@column_list("--columns", help="IPUMS: variables to keep (default: the paper's).")
@json_option
def datasets(
    name: str | None,
    files: tuple[Path, ...],
    out: Path | None,
    rows: int | None,
    seed: int,
    encoding: str,
    log_base: float,
    keep_zero_weeks: bool,
    codebook: Path | None,
    columns: tuple[str, ...] | None,
    as_json: bool,
) -> None:
    """List the datasets, convert one to Parquet, or generate a synthetic one."""
    from labeldp.errors import InputError
    from labeldp_paper.datasets.catalogue import find
    from labeldp_paper.datasets.declaration import Options
    from labeldp_paper.datasets.making import convert, generate

    if name is None:
        _list(as_json)
        return
    dataset = find(name)
    if out is None:
        raise InputError(f"{name} needs --out, the new file; without a name datasets are listed")
    options = Options(codebook, columns or (), keep_zero_weeks, log_base)
    if dataset.synthetic and not files:
        made = generate(
            name, out, rows, seed, encoding=encoding, options=options, progress=progress
        )
    elif rows is not None:
        raise InputError(f"--rows does not apply to {name}: its files are read whole")
    else:
        made = convert(
            name, list(files), out, encoding=encoding, seed=seed, options=options, progress=progress
        )
    if as_json:
        from dataclasses import asdict

        emit_json(asdict(made))
    else:
        _show(made)


def _list(as_json: bool) -> None:
    from labeldp_paper.datasets.catalogue import DATASETS

    if as_json:
        emit_json({"datasets": [dataset.facts() for dataset in DATASETS.values()]})
        return
    for dataset in DATASETS.values():
        low, high = dataset.label_range
        emit_facts(
            dataset.name,
            [
                ("what", dataset.title),
                ("needs", dataset.needs),
                ("licence", dataset.licence),
                ("label", f"{dataset.label}, {low:g} to {high:g}"),
            ],
        )


def _show(made: Made) -> None:
    advice = None
    if made.label and made.label_range:
        low, high = made.label_range
        advice = f"--label {made.label} --label-range {low:g} {high:g}{' --clip' * made.clip}"
    emit_facts(
        f"{made.path}{' (synthetic)' if made.synthetic else ''}",
        [
            ("rows", number(made.rows)),
            ("left out, no label", number(made.dropped)),
            ("numeric", ", ".join(made.numeric) or None),
            ("categorical", ", ".join(made.categorical) or None),
            ("use it with", advice),
        ],
    )
