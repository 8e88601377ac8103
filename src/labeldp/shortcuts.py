"""In one call: a table to a release, and a release or a plan to a page."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from labeldp.data.source import TABLE_OPTIONS, Source, as_source
from labeldp.errors import to_path
from labeldp.features.formula import Formula
from labeldp.io_util import check_target, new_path
from labeldp.mechanisms.options import DELTA, EPSILON
from labeldp.planning import Plan, plan
from labeldp.releases.files import Release
from labeldp.releases.tables import StoredTable
from labeldp.reporting import plan_report, release_report, report_page
from labeldp.spark.engine import engine_for

_RELEASE_OPTIONS = ("ledger", "dataset", "about", "randomness")


def release(
    frame: Any,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    *,
    label: str | None = None,
    label_range: tuple[float, float] | None = None,
    out: str | Path | None = None,
    **options: Any,
) -> Release:
    """Scan a table, plan for it and release it. The labels are read once, by the release.

    Parameters
    ----------
    frame
        a path, a frame or a source.
    epsilon, delta
        the privacy budget, as for `plan`.
    label, label_range
        the private column, and its public range, unless `frame` is a source.
    out
        None: into memory. Else the directory to write, which must not exist.
    options
        other keywords of `scan`, `plan` and `Plan.release`.

    Returns
    -------
    Release
        The release; it has been paid for, so `save` it if there is no `out`.

    Raises
    ------
    InputError
        an option is wrong, or (DataError) the table, or (PlanError) the budget for it.
    ReleaseError
        `out` exists or cannot be written.

    Examples
    --------
    >>> import labeldp
    >>> table = {"age": list(range(20, 70)) * 20, "income": [30.0, 50.0] * 500}
    >>> labeldp.release(table, label="income", label_range=(0, 100), epsilon=1).bags
    2
    """
    if out is not None:
        check_target(to_path("out", out))
    table, drawing = (
        {name: options.pop(name) for name in names if name in options}
        for names in (TABLE_OPTIONS, _RELEASE_OPTIONS)
    )
    if label is None and "formula" in options and not isinstance(frame, Source):
        label = Formula(options["formula"]).label
    # Scanned once: a frame may be a stream.
    source = as_source(frame, label=label, label_range=label_range, **table)
    engine = options.setdefault("engine", engine_for(source))
    planned = plan(source, epsilon, delta, **options)
    return planned.release(source, directory=out, engine=engine, **drawing)


def report(subject: Release | Plan | str | Path, path: str | Path) -> None:
    """Write an HTML page about a release or a plan, to read, print and sign.

    Parameters
    ----------
    subject
        a plan, a release or the directory of one; it is verified first.
    path
        the file to write, which must not exist.
    """
    path = to_path("path", path)
    check_target(path)
    if isinstance(subject, Plan):
        document = plan_report(subject)
    elif isinstance(subject, Release) and isinstance(subject.table, StoredTable):
        document = release_report(subject.table.path.parent)
    elif isinstance(subject, Release):
        with TemporaryDirectory() as folder:
            subject.save(Path(folder) / "release")
            document = release_report(Path(folder) / "release")
    else:
        document = release_report(to_path("subject", subject))
    with new_path(path) as partial:
        partial.write_text(report_page(document), encoding="utf-8")
