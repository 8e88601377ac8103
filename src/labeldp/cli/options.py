"""Options that several commands share, and what they make."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from labeldp.engines import Engine
    from labeldp.features import FeatureMap
    from labeldp.source import Source

Data = Annotated[
    str, typer.Argument(help="A Parquet, CSV(.gz), TSV or Arrow file, a glob, or a directory.")
]
Label = Annotated[str, typer.Option(help="The private label column.")]
LabelRange = Annotated[
    tuple[float, float], typer.Option(metavar="LO HI", help="Public range of the labels.")
]
Features = Annotated[
    str | None, typer.Option(metavar="A,B", help="Feature columns; default: all but the label.")
]
Categorical = Annotated[
    str | None, typer.Option(metavar="A,B", help="Columns that are codes, not numbers.")
]
Numeric = Annotated[
    str | None, typer.Option(metavar="A,B", help="Columns that are numbers, not codes.")
]
Drop = Annotated[str | None, typer.Option(metavar="A,B", help="Columns to leave out.")]
Clip = Annotated[bool, typer.Option("--clip", help="Clip labels to the range.")]
DropMissing = Annotated[
    bool,
    typer.Option(
        "--drop-missing-labels",
        help="Leave out rows without a label (who lacks one becomes visible).",
    ),
]
MinCount = Annotated[
    int | None,
    typer.Option(help="Merge levels seen less often; default: the root of the rows."),
]
MaxLeverage = Annotated[
    float | None,
    typer.Option(help="Leave out design columns that give a row more leverage than this."),
]
Strict = Annotated[
    bool,
    typer.Option("--strict", help="Refuse constant or dependent columns; default: leave them out."),
]
Threads = Annotated[int, typer.Option(min=0, help="Threads; 0: one for each core.")]
EngineName = Annotated[str, typer.Option("--engine", help="Where data are read: local or spark.")]
Checkpoint = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR", help="A private directory; an interrupted run resumes its sums from it."
    ),
]
Epsilon = Annotated[float, typer.Option(help="Privacy budget ε.")]
Delta = Annotated[float, typer.Option(help="Privacy budget δ.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
ReleaseDirectory = Annotated[Path, typer.Argument(help="A release directory.")]


def make_engine(name: str, threads: int, checkpoint: Path | None = None) -> Engine:
    """The engine that the options name."""
    from labeldp.cli.output import progress
    from labeldp.engines import LocalEngine
    from labeldp.errors import InputError

    if name == "local":
        return LocalEngine(threads, progress, checkpoint=checkpoint)
    if name != "spark":
        raise InputError(f"engine {name!r} is unknown; choose local or spark")
    if threads:
        raise InputError("--threads is for --engine local; Spark has settings of its own")
    from labeldp.spark import SparkEngine

    return SparkEngine(progress)


def opened(data: str, engine: str) -> Any:
    """What `scan` reads under a name: a path, or what Spark finds there."""
    if engine != "spark":
        return data
    from labeldp.spark import read

    return read(data)


def names(text: str | None) -> tuple[str, ...]:
    """A comma-separated list of columns."""
    return tuple(part.strip() for part in text.split(",") if part.strip()) if text else ()


def source(
    data: str,
    *,
    label: str,
    label_range: tuple[float, float],
    features: str | None,
    categorical: str | None,
    numeric: str | None,
    drop: str | None,
    clip: bool,
    drop_missing_labels: bool,
    engine: str,
) -> Source:
    """The source that the data options describe."""
    from labeldp.source import scan

    return scan(
        opened(data, engine),
        label=label,
        label_range=label_range,
        features=names(features) or None,
        categorical=names(categorical),
        numeric=names(numeric),
        drop=names(drop),
        clip=clip,
        drop_missing_labels=drop_missing_labels,
    )


def raw_rows(data: str, features: FeatureMap, label: str | None = None) -> Source:
    """Rows to predict or score: only the columns the map needs are read.

    The label may be among the others, and messages about features quote their values.
    """
    from labeldp.source import scan

    return scan(
        data,
        label=label,
        label_range=None if label is None else (-1e150, 1e150),
        features=features.columns,
        categorical=tuple(column.name for column in features.categorical),
        numeric=tuple(column.name for column in features.numeric),
        drop_missing_labels=label is not None,
    )
