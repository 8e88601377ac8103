"""Record the golden values, from the code as it is.

    python -m tests.golden.record [--force] [KIND ...]

writes tests/golden/values/KIND.json for every kind of case, or those named. A file that is
there is not overwritten without --force: what it holds is what later code is held to.

The last digits of a floating-point number hang on the linear algebra and the processor as well
as on the code, so a file says with what arithmetic it was made: `arithmetic`.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import scipy.linalg
from threadpoolctl import threadpool_info, threadpool_limits

from tests.golden import (
    cases_accounting,
    cases_command,
    cases_plans,
    cases_releases,
    cases_tables,
)
from tests.golden.inside import pinned_seeds

VALUES = Path(__file__).with_name("values")

Case = Callable[[], Any]
KINDS: Mapping[str, Mapping[str, Case]] = {
    "tables": cases_tables.CASES,
    "accounting": cases_accounting.CASES,
    "command": cases_command.CASES,
    "plans": cases_plans.CASES,
    "releases": cases_releases.CASES,
}


def computed(kind: str, name: str) -> Any:
    """What the code gives now, as JSON reads it back, with one thread and the name's own seeds."""
    with threadpool_limits(1), pinned_seeds(f"{kind} {name}"):
        return json.loads(json.dumps(_plain(KINDS[kind][name]()), allow_nan=False))


def arithmetic() -> dict[str, Any]:
    """What last digits hang on besides the code."""
    simd = np.show_config(mode="dicts")["SIMD Extensions"]
    return {
        "machine": f"{platform.machine()} {' '.join(platform.libc_ver())}",
        "simd": [*simd.get("baseline", []), *simd.get("found", [])],
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "blas": sorted({f"{x['version']} {x['architecture']}" for x in _blas()}),
    }


def _blas() -> list[dict[str, Any]]:
    return [found for found in threadpool_info() if found["user_api"] == "blas"]


def recorded(kind: str) -> dict[str, Any]:
    """What the code gave when it was recorded: `cases`, and with what `arithmetic`."""
    values: dict[str, Any] = json.loads((VALUES / f"{kind}.json").read_text(encoding="utf-8"))
    return values


def write(kind: str) -> None:
    """One line for each case, so that a difference shows which."""
    lines = (
        f"{json.dumps(name)}: {json.dumps(computed(kind, name), separators=(',', ':'))}"
        for name in KINDS[kind]
    )
    head = f'{{"arithmetic": {json.dumps(arithmetic())},\n"cases": '
    text = head + "{\n" + ",\n".join(lines) + "\n}}\n"
    (VALUES / f"{kind}.json").write_text(text, encoding="utf-8")


def _plain(value: Any) -> Any:
    """JSON has no infinities: they become words."""
    if isinstance(value, float) and not math.isfinite(value):
        return repr(value)
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return value


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.golden.record", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    parser.add_argument("--force", action="store_true", help="overwrite what was recorded")
    given = parser.parse_args()
    kinds = given.kinds or list(KINDS)
    if unknown := set(kinds) - set(KINDS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; choose from {', '.join(KINDS)}")
    there = [kind for kind in kinds if (VALUES / f"{kind}.json").exists()]
    if there and not given.force:
        sys.exit(f"recorded already: {', '.join(there)}; --force replaces what the code gave then")
    VALUES.mkdir(exist_ok=True)
    for kind in kinds:
        write(kind)
        print(f"{kind}: {len(KINDS[kind])} cases")


if __name__ == "__main__":
    main()
