"""What is installed beside labeldp: its known vulnerabilities, and under which licences it stands.

python -m tools.dependencies [--auditor PYTHON]

Exit code 1 if something was found, 2 if the database of vulnerabilities could not be asked about
a package: then nothing is known about it. `--auditor` is a Python that has pip-audit; it looks at
the packages of the Python that runs this, so that its own are not among them.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distributions
from typing import Any

ALLOWED = frozenset(
    (
        *("0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BSL-1.0", "CC0-1.0", "ISC"),
        *("LGPL-3.0-or-later", "MIT", "MIT-0", "MIT-CMU", "MPL-2.0", "NCSA", "PSF-2.0"),
        *("Python-2.0", "Unlicense", "Zlib"),
    )
)
"""Permissive, or copyleft of the file or library alone: nothing that would bind who uses us."""

_NAMES = {
    "apache 2.0": "Apache-2.0",
    "apache software license": "Apache-2.0",
    "bsd": "BSD-3-Clause",
    "bsd license": "BSD-3-Clause",
    "cc0": "CC0-1.0",
    "isc license": "ISC",
    "isc license (iscl)": "ISC",
    "mit license": "MIT",
    "mozilla public license 2.0 (mpl 2.0)": "MPL-2.0",
    "python software foundation license": "PSF-2.0",
}
"""What older packages call the licences, in classifiers or in words."""

_LOOKED_UP = {"mlcroissant": "Apache-2.0"}
"""Packages that say nothing about themselves: from the licence file that they carry."""


def licence(package: Distribution) -> str:
    """An expression of licence names, or what the package says instead; "" if it says nothing."""
    told: Any = package.metadata
    words = told.get("License-Expression") or _LOOKED_UP.get(package.name)
    if words:
        return str(words)
    classes = [c.rpartition(":: ")[2] for c in told.get_all("Classifier") or () if _licensing(c)]
    if classes:
        return " AND ".join(_NAMES.get(name.lower(), name) for name in classes)
    first = (told.get("License") or "").strip().partition("\n")[0]
    return _NAMES.get(first.lower(), str(first))


def _licensing(classifier: str) -> bool:
    return classifier.startswith("License :: ") and classifier != "License :: OSI Approved"


def allowed(expression: str) -> bool:
    """Whether one of the alternatives has allowed parts alone; exceptions (WITH) allow more."""
    alternatives = re.sub(r"[()]", " ", expression).split(" OR ")
    parts = [[p.split(" WITH ")[0].strip() for p in a.split(" AND ")] for a in alternatives]
    return any(all(part in ALLOWED for part in each) for each in parts)


def unlicensed(packages: Iterable[Distribution]) -> Iterator[str]:
    """A line for each package whose licence is not on the list."""
    for package in sorted(packages, key=lambda each: each.name.lower()):
        found = licence(package)
        if not allowed(found):
            yield f"{package.name} {package.version}: {found or 'says nothing about its licence'}"


def vulnerable(answer: str) -> list[str]:
    """A line for each vulnerability in pip-audit's answer."""
    return [
        f"{package['name']} {package['version']}: {problem['id']}, mended in "
        f"{', '.join(problem['fix_versions']) or 'no version'}"
        for package in json.loads(answer)["dependencies"]
        for problem in package.get("vulns", ())
    ]


def unknown(answer: str) -> list[str]:
    """A line for each package that the database has not heard of; labeldp is in none."""
    return [
        f"{package['name']}: {package['skip_reason']}"
        for package in json.loads(answer)["dependencies"]
        if "skip_reason" in package and package["name"] != "labeldp"
    ]


def ask(auditor: str) -> tuple[list[str], list[str]]:
    """Vulnerabilities that are known, and what the database could not be asked, and why."""
    where = sysconfig.get_paths()["purelib"]
    options = ["--path", where, "--format", "json", "--progress-spinner", "off"]
    done = subprocess.run(
        [auditor, "-m", "pip_audit", *options], capture_output=True, text=True, check=False
    )
    try:
        return vulnerable(done.stdout), unknown(done.stdout)
    except ValueError:
        said = done.stderr.strip().splitlines() or ["pip-audit said nothing"]
        return [], [f"the database was not reached: {said[-1]}"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--auditor", default=sys.executable, help="a Python with pip-audit")
    packages = {package.name: package for package in distributions()}
    odd = list(unlicensed(packages.values()))
    _tell(f"licences of {len(packages)} packages", odd)
    holes, unasked = ask(parser.parse_args().auditor)
    _tell(f"known vulnerabilities of {len(packages)} packages", holes)
    if unasked:
        print("known vulnerabilities: NOT CHECKED", *unasked, sep="\n  ")
        sys.exit(2)
    sys.exit(bool(odd or holes))


def _tell(what: str, problems: list[str]) -> None:
    print(f"{what}: {f'{len(problems)} to look at' if problems else 'none to look at'}")
    for problem in problems:
        print(f"  {problem}")


if __name__ == "__main__":
    main()
