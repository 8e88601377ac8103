"""labeldp datasets"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from labeldp.cli import Json, argument, emit_facts, emit_json, number, progress, told

if TYPE_CHECKING:
    from labeldp_paper.datasets.making import Made

_LOG_BASE = 2.0


def datasets(
    name: Annotated[
        str | None, argument("The dataset to make; without it they are listed.")
    ] = None,
    files: Annotated[
        list[Path] | None, argument("Its original files; none if it is synthetic.")
    ] = None,
    out: Annotated[
        Path | None, told("The new file: .parquet; if synthetic also .dat or .tsv.")
    ] = None,
    rows: Annotated[int | None, told("Rows of a synthetic dataset.")] = None,
    seed: Annotated[int, told("Of synthetic rows and of the projection.")] = 0,
    encoding: Annotated[
        str, told("levels, or projection: categories as ⌈log₂ L⌉ random numbers.")
    ] = "levels",
    log_base: Annotated[float, told("Criteo: base of the logarithm in (log z)².")] = _LOG_BASE,
    keep_zero_weeks: Annotated[bool, told("Census: keep people without weeks of work.")] = False,
    codebook: Annotated[
        Path | None, told("IPUMS: the DDI codebook; default: beside the extract.")
    ] = None,
    columns: Annotated[
        str | None,
        told("IPUMS: variables to keep; default: the paper's.", metavar="A,B"),
    ] = None,
    json: Json = False,
) -> None:
    """List the datasets, convert one to Parquet, or generate a synthetic one."""
    from labeldp.errors import InputError
    from labeldp_paper.datasets.catalogue import find
    from labeldp_paper.datasets.declaration import Options
    from labeldp_paper.datasets.making import convert, generate

    if name is None:
        _list(json)
        return
    dataset = find(name)
    if out is None:
        raise InputError(f"{name} needs --out, the new file; without a name datasets are listed")
    chosen = tuple(part.strip() for part in (columns or "").split(",") if part.strip())
    options = Options(codebook, chosen, keep_zero_weeks, log_base)
    if dataset.synthetic and not files:
        made = generate(
            name, out, rows, seed, encoding=encoding, options=options, progress=progress
        )
    elif rows is not None:
        raise InputError(f"--rows does not apply to {name}: its files are read whole")
    else:
        made = convert(
            name,
            files or [],
            out,
            encoding=encoding,
            seed=seed,
            options=options,
            progress=progress,
        )
    if json:
        from dataclasses import asdict

        emit_json(asdict(made))
    else:
        _show(made)


def _list(json: bool) -> None:
    from labeldp_paper.datasets.catalogue import DATASETS

    if json:
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
