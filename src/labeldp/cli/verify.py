"""labeldp verify"""

from __future__ import annotations

from typing import Annotated

import typer

from labeldp.cli.options import EngineOptions, Json, ReleaseDirectory, opened
from labeldp.cli.output import emit_json


def verify(
    directory: ReleaseDirectory,
    reading: EngineOptions,
    data: Annotated[
        str | None,
        typer.Option(help="The table whose features were released: recheck them too."),
    ] = None,
    json: Json = False,
) -> int:
    """Recompute a release's certificate from its public fields; exit 1 if anything disagrees."""
    from labeldp import verify as check

    runner = reading.make()
    table = None if data is None else opened(data, reading.engine)
    report = check(directory, table, runner)
    if json:
        lists = {"problems": list(report.problems), "weak": list(report.weak)}
        emit_json({"valid": report.valid, **lists})
    elif report.valid:
        print(f"{directory} is valid{', but weak' * bool(report.weak)}: {report.summary}")
        for reason in report.weak:
            print(f"  - {reason}")
    else:
        print(f"{directory} is NOT valid:")
        for problem in report.problems:
            print(f"  - {problem}")
    return 0 if report.valid else 1
