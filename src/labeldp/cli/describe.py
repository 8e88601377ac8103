"""labeldp describe"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from labeldp.cli.derived import told
from labeldp.cli.options import ReleaseDirectory
from labeldp.io_util import check_target, new_path


def describe(
    directory: ReleaseDirectory,
    kind: Annotated[str, told("croissant, registry or card.", flag="--as")] = "card",
    out: Annotated[Path | None, told("Write it to this new file.")] = None,
) -> None:
    """A release in the words of catalogues, made from its certificate and its files."""
    from labeldp.signoff.describe import describe as described

    if out is not None:
        check_target(out)
    text = described(directory, kind)
    if out is None:
        print(text, end="")
        return
    with new_path(out) as partial:
        partial.write_text(text, encoding="utf-8")
