"""Verify a release from its public files alone.

The checks, in this order:

1. the files have the form of a release (`release.files.form_problems`);
2. seal, digests and signatures match the contents (`release.files.content_problems`);
3. the required keys have signed;
4. what follows from the claim is computed again: texts and counts must be equal, numbers agree to
   a relative 1e-6, and δ at the claimed ε must not exceed the claimed δ (the curve and the groups
   of a former accountant must be upper bounds);
5. the published numbers look like draws from the distribution that the claim states (`check` of
   the mechanism);
6. if the table is given, its features are those of the release (`check_features`).
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.data.files import find_files
from labeldp.data.source import Source
from labeldp.display import ReprMixin, format_budget
from labeldp.errors import InputError, ReleaseError, to_path
from labeldp.mechanisms.registry import mechanism_named, read_claim
from labeldp.passes.engine import Engine
from labeldp.releases.certificate import FloorOutcome, claimed_fields, randomness_fields
from labeldp.releases.files import (
    Release,
    content_problems,
    form_problems,
    one_line,
    public_rows,
)
from labeldp.releases.side_files import SIGNATURES, Envelope
from labeldp.releases.tables import unchecked_bytes
from labeldp.spark.engine import engine_for

if TYPE_CHECKING:
    from labeldp.signing import PublicKey

_TOLERANCE = 1e-6
"""Relative tolerance of recomputed numbers; libraries differ in the last digits."""
_MOST_PROBLEMS = 5
"""Most problems that are shown."""
_NONSENSE = (KeyError, TypeError, ValueError, ArithmeticError)
"""Errors from computing with what a forger wrote."""


@dataclass(frozen=True, repr=False)
class Verification(ReprMixin):
    """The result of `verify`: valid if there is no problem."""

    problems: tuple[str, ...]
    summary: str = ""
    weak: tuple[str, ...] = ()
    """Reasons why the guarantee, which holds, protects little."""
    untested: tuple[str, ...] = ()
    """What was not checked, though a forger might have changed it."""
    signed_by: tuple[str, ...] = ()
    """Names of the required keys, which all signed."""

    @property
    def valid(self) -> bool:
        """Whether there is no problem."""
        return not self.problems

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        facts = [("problem", text) for text in self.problems[:_MOST_PROBLEMS]]
        more = len(self.problems) - _MOST_PROBLEMS
        facts += [("", f"and {more} more")] if more > 0 else []
        facts += [("weak", text) for text in self.weak]
        facts += [("not checked", text) for text in self.untested]
        return (f"Valid: {self.summary}" if self.valid else "NOT valid", tuple(facts))


def verify(
    directory: str | Path | Release,
    data: Any = None,
    engine: Engine | None = None,
    *,
    keys: Sequence[PublicKey] = (),
) -> Verification:
    """Verify a release from its public files alone.

    Parameters
    ----------
    directory
        of the release, or a release in memory: then what it would be saved as.
    data
        the table whose features were released (a source, a path or a frame; labels are not needed):
        facts about features, and the law of aggregated ones, are rechecked too.
    engine
        where data are read; changes speed, never an answer.
    keys
        public keys (`labeldp.signing.PublicKey`), each of which must have signed.

    Returns
    -------
    Verification
        What disagrees; `valid` if nothing does. A table that cannot be read as the release's does.

    Raises
    ------
    ReleaseError
        there is no such directory.
    DataError
        there is no such table.

    Examples
    --------
    >>> import labeldp
    >>> table = {"age": list(range(20, 70)) * 20, "income": [30.0, 50.0] * 500}
    >>> plan = labeldp.plan(table, 1, 1e-6, label="income", label_range=(0, 100))
    >>> labeldp.verify(plan.release(table, label="income"), table).valid
    True
    """
    if isinstance(directory, Release):
        with TemporaryDirectory() as temporary:
            folder = Path(temporary) / "release"
            directory.save(folder)
            return verify(folder, data, engine, keys=keys)
    folder = to_path("directory", directory)
    if not os.path.isdir(folder):
        raise ReleaseError(f"{folder} is not a release directory; name the one it was saved in")
    if isinstance(data, str | Path):
        find_files(data)  # a wrong path is the caller's mistake, not a problem of the release
    try:
        release = Release.load(folder, verify=False)
        problems = form_problems(folder, release)
    except InputError as problem:
        problems = [str(problem)]
    # The other checks, and the summary, rely on the form of the certificate.
    if problems:
        return Verification(tuple(map(one_line, problems)))
    envelope = Envelope.of(folder)
    problems = content_problems(folder, release)
    for key in keys:
        if envelope is None:
            problems.append(f"it is not signed, by {key.name} or anyone: {SIGNATURES} is missing")
        elif not key.signed(envelope):
            problems.append(f"it is not signed by {key.name}")
    mechanism = mechanism_named(release.certificate["mechanism"])
    try:
        with np.errstate(all="ignore"):  # forged numbers may be as large as doubles are
            problems += [*_claim_problems(release.certificate), *mechanism.check(release)]
    except _NONSENSE as problem:
        problems.append(f"certificate: the claim makes no sense: {problem}")
    if data is not None and not problems:
        try:
            source = data if isinstance(data, Source) else public_rows(release, data)
            problems += mechanism.check_features(release, source, engine or engine_for(source))
        except _NONSENSE as problem:
            problems.append(f"the table is not that of the release: {problem}")
    summary = _summary(release.certificate)
    if problems:
        return Verification(tuple(map(one_line, problems)), summary)
    untested = [*mechanism.not_checked(release)]
    untested += filter(None, map(unchecked_bytes, sorted(folder.glob("*.parquet"))))
    if not keys and envelope is not None:
        untested.append("whose the signatures may be: give public keys (`key`)")
    weak, names = release.certificate["weak"], (key.name for key in keys)
    return Verification((), summary, tuple(weak), tuple(untested), tuple(names))


def _summary(certificate: dict[str, Any]) -> str:
    """Return size, guarantee and mechanism of a release in one line."""
    details = [f"{certificate['accountant']['name']} accountant"]
    with suppress(KeyError, TypeError):  # sections may have been altered
        if (floor := certificate["floor"]) is not None:
            details.append(f"floor {floor['mode']}")
        if (draw := certificate["draw"]) is not None:
            details.append(draw["guarantee"])
        if "person" in certificate:
            most = certificate["person"]["rows"]
            details.append(f"all rows of a person together, at most {most:,}")
    text = (
        f"{certificate['bags']:,} aggregates of {certificate['bag_size']:,} "
        f"row{'s' * (certificate['bag_size'] != 1)}, "
        f"label-DP with {format_budget(certificate['epsilon'], certificate['delta'])} "
        f"({certificate['mechanism']}, {', '.join(details)})"
    )
    warning = certificate["randomness"]["warning"]
    return f"{text}; {warning}" if warning else text


def _claim_problems(certificate: dict[str, Any]) -> Iterator[str]:
    """Compute again what the claim determines, and compare; check the budget and the ledger."""
    claim = read_claim(certificate)
    former = claim.accountant in mechanism_named(claim.mechanism).former_accountants
    stated = certificate if former else None
    expected = claimed_fields(claim, FloorOutcome.of(certificate), stated)
    yield from _differences(certificate, expected, "certificate")
    if certificate["numerics"]["aggregate_labels"] != claim.sampler_description:
        yield f"certificate: aggregate labels should be {claim.sampler_description}"
    delta = claim.delta_at(claim.epsilon)
    if not delta <= claim.delta:  # also true for NaN
        yield (
            f"certificate: δ at ε = {claim.epsilon:g} is {delta:.3g}, "
            f"more than the claimed {claim.delta:g}"
        )
    if certificate["randomness"] != randomness_fields(private=True):
        yield "certificate: drawn from a seed for an experiment, so it is not private"
    if (entry := certificate["ledger"]) is not None:
        # The first entry of a ledger is its opening, not a release.
        if not 1 <= entry["releases"] < entry["entry"]:
            yield "certificate.ledger: a ledger has more entries than releases"
        # All releases together cost no less than this one alone.
        if not claim.delta_at(entry["epsilon"] * (1 + _TOLERANCE)) <= entry["delta"]:
            yield "certificate.ledger: the total is less than this release costs alone"


def _differences(stated: Any, expected: Any, path: str) -> Iterator[str]:
    """Yield where a JSON value differs from what was recomputed, with the path to the place.

    Fields that were not recomputed, such as what the run measured, may hold anything.
    """
    if isinstance(expected, dict) and isinstance(stated, dict):
        for name, value in expected.items():
            yield from _differences(stated.get(name), value, f"{path}.{name}")
    elif isinstance(expected, list) and isinstance(stated, list) and len(expected) == len(stated):
        for place, (left, right) in enumerate(zip(stated, expected, strict=True)):
            yield from _differences(left, right, f"{path}[{place}]")
    elif isinstance(expected, float) and isinstance(stated, int | float):
        if not math.isclose(stated, expected, rel_tol=_TOLERANCE, abs_tol=1e-300):
            yield f"{path} is {stated!r}, recomputed {expected!r}"
    elif type(stated) is not type(expected) or stated != expected:
        yield f"{path} is {stated!r}, recomputed {expected!r}"
