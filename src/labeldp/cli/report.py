"""labeldp report"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from labeldp.cli.derived import told
from labeldp.cli.options import Json, ReleaseDirectory
from labeldp.cli.output import emit_json
from labeldp.cli.plan import write_report
from labeldp.io_util import check_target


def report(
    directory: ReleaseDirectory,
    out: Annotated[
        Path | None, told("The HTML file to write; default: DIRECTORY.html beside it.")
    ] = None,
    json: Json = False,
) -> None:
    """A release on a page or two, for whoever must answer for it: to read, print and sign."""
    from labeldp.report.document import release_report

    place = directory.resolve()
    target = out or (None if json else place.with_name(f"{place.name}.html"))
    if target is not None:
        check_target(target)
    told = release_report(directory)
    if target is not None:
        write_report(target, told)
    if json:
        emit_json(told)
    else:
        print(f"{target}: open it in a browser, print it, sign it")
