"""The names of `labeldp.files`, as long as modules import them from here."""

from labeldp.files import (
    canonical_json,
    check_target,
    json_digest,
    new_directory,
    new_path,
    read_json,
    refuse_existing,
)

__all__ = [
    "canonical_json",
    "check_target",
    "json_digest",
    "new_directory",
    "new_path",
    "read_json",
    "refuse_existing",
]
