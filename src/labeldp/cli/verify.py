"""labeldp verify"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from labeldp.cli.derived import told
from labeldp.cli.options import EngineOptions, Json, ReleaseDirectory, opened
from labeldp.cli.output import emit_json, in_flags
from labeldp.cli.terminal import say

if TYPE_CHECKING:
    from labeldp.signoff.signing import PublicKey


def verify(
    directory: ReleaseDirectory,
    reading: EngineOptions,
    data: Annotated[
        str | None,
        told("The table whose features were released: recheck them too."),
    ] = None,
    key: Annotated[
        list[Path] | None,
        told("A public key that must have signed; repeat for several."),
    ] = None,
    json: Json = False,
) -> int:
    """Recompute a release's certificate from its public fields; exit 1 if anything disagrees."""
    from labeldp.signoff.verification import verify as check

    runner = reading.make()
    table = None if data is None else opened(data, reading.engine)
    report = check(directory, table, runner, keys=_read_keys(key or []))
    if json:
        lists = ("problems", "weak", "untested", "signed_by")
        emit_json({"valid": report.valid, **{name: list(getattr(report, name)) for name in lists}})
    elif report.valid:
        say(f"{directory} is valid{', but weak' * bool(report.weak)}: {report.summary}")
        for reason in report.weak:
            say(f"  - {reason}", hanging="    ")
        for name in report.signed_by:
            say(f"  signed by {name}")
        for reason in report.untested:
            say(f"  not tested: {in_flags(reason)}", hanging="    ")
    else:
        say(f"{directory} is NOT valid:")
        for problem in report.problems:
            say(f"  - {problem}", hanging="    ")
    return 0 if report.valid else 1


def _read_keys(paths: list[Path]) -> list[PublicKey]:
    if not paths:
        return []
    from labeldp.signoff.signing import PublicKey

    return [PublicKey.read(path) for path in paths]
