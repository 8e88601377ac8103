"""What a benchmark ran on, in a sentence or two: no name of the machine."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = (
    "numpy",
    "scipy",
    "pyarrow",
    "scikit-learn",
    "duckdb",
    "tabmat",
    "dp-accounting",
    "torch",
)


def machine() -> str:
    """Cores, memory, load and versions."""
    found = [f"{name} {release}" for name in PACKAGES if (release := _version(name))]
    load = f"load {os.getloadavg()[0]:.1f} before the run"
    if os.getloadavg()[0] > 0.5 * (os.cpu_count() or 1):
        load += " (busy with other work, so times are too long and ratios rough)"
    return (
        f"{_processor()}, {os.cpu_count()} cores, {_memory_gib():.0f} GiB of memory, {load}; "
        f"{platform.system()}, Python {platform.python_version()}, {', '.join(found)}."
    )


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    found = info.exists() and re.search(r"model name\s*:\s*(.*)", info.read_text(encoding="utf-8"))
    return found.group(1).strip() if found else platform.machine()


def _memory_gib() -> float:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
