"""Hooks of the documentation site: an API reference from the docstrings, and links that leave docs.

The pages themselves are those of the repository, where they are read without a site as well.
"""

from __future__ import annotations

import re
from typing import Any

from mkdocs.structure.files import File, Files

import labeldp

API = "api.md"
_FENCE = re.compile(r"^(\s*```[a-z]+) .*$", re.MULTILINE)
_OUTSIDE = re.compile(r"\[([^\]]+)\]\((?:\.\./)+([^)\s]+)\)")


def on_files(files: Files, config: Any) -> Files:
    """Every public name with its docstring, on one page that is written nowhere else."""
    entries = [f"::: {getattr(labeldp, name).__module__}.{name}" for name in labeldp.__all__]
    content = "\n\n".join(["# API reference", "Every public name of `labeldp`.", *entries])
    files.append(File.generated(config, API, content=f"{content}\n"))
    return files


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Files that are not pages are named instead of linked to; what tests read of a block goes."""
    return _OUTSIDE.sub(r"\1 (`\2`)", _FENCE.sub(r"\1", markdown))
