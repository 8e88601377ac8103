"""Recheck a release from its public files alone.

Everything that follows from the claim is computed again with numpy and scipy and compared:
texts and counts to the letter, numbers to a relative 1e-6, and δ at the claimed ε must not
exceed the claimed δ. Digests tie the certificate to the aggregates and the feature map, and
the aggregates must look like draws from the law that the claim rests on.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import numpy as np

from labeldp.data.files import find
from labeldp.data.source import Source
from labeldp.display import ReprMixin
from labeldp.errors import InputError, ReleaseError, to_path
from labeldp.io_util import is_directory
from labeldp.mechanisms.registry import mechanism_named, read_claim
from labeldp.passes.engine import Engine, engine_for
from labeldp.release.certificate import Claim, FloorOutcome, claimed_fields, randomness_fields
from labeldp.release.files import Release
from labeldp.release.form import altered, misshapen
from labeldp.release.rows import public_rows
from labeldp.release.statement import SIGNATURES, Envelope

_TOLERANCE = 1e-6
_SHOWN = 5
_MOST_SHOWN = 600


@dataclass(frozen=True, repr=False)
class Verification(ReprMixin):
    """The answer: valid when nothing disagreed."""

    problems: tuple[str, ...]
    summary: str = ""
    weak: tuple[str, ...] = ()
    """Why the guarantee, which holds, protects little; empty if it protects."""
    untested: tuple[str, ...] = ()
    """What could not be tested here, though a forger might have changed it."""
    signed_by: tuple[str, ...] = ()
    """The names of keys that were asked for and did sign."""

    @property
    def valid(self) -> bool:
        """Whether nothing disagreed."""
        return not self.problems

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        facts = [("problem", text) for text in self.problems[:_SHOWN]]
        more = len(self.problems) - _SHOWN
        facts += [("", f"and {more} more")] if more > 0 else []
        facts += [("weak", text) for text in self.weak]
        facts += [("not tested", text) for text in self.untested]
        return (f"Valid: {self.summary}" if self.valid else "NOT valid", tuple(facts))


class Key(Protocol):
    """A public key, as `labeldp.signing` reads it."""

    @property
    def name(self) -> str: ...

    def signed(self, envelope: Envelope) -> bool: ...


def verify(
    directory: str | Path | Release,
    data: Any = None,
    engine: Engine | None = None,
    *,
    keys: Sequence[Key] = (),
) -> Verification:
    """Recheck a release from its public files alone.

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
    >>> made = labeldp.plan(table, 1, 1e-6, label="income", label_range=(0, 100))
    >>> labeldp.verify(made.release(table, label="income"), table).valid
    True
    """
    if isinstance(directory, Release):
        return _in_memory(directory, data, engine, keys)
    folder = to_path("directory", directory)
    if not is_directory(folder):
        raise ReleaseError(f"{folder} is not a release directory; name the one it was saved in")
    try:
        release = Release.load(folder, verify=False)
    except InputError as problem:
        return Verification((_shown(str(problem)),))
    certificate = release.certificate
    problems = misshapen(folder, release)
    if problems:
        return Verification(tuple(map(_shown, problems)))
    envelope = Envelope.of(folder)
    problems = [*altered(folder, release), *_unsigned(envelope, keys), *_claim(release)]
    if data is not None and not problems:
        problems = _table(release, data, engine)
    if problems:
        return Verification(tuple(map(_shown, problems)), _summary(certificate))
    return Verification(
        (),
        _summary(certificate),
        tuple(certificate["weak"]),
        tuple(_untested(release, envelope, keys)),
        tuple(key.name for key in keys),
    )


def _shown(problem: str) -> str:
    """In one line of sober length: names in forged files may hold anything."""
    plain = "".join(sign if sign.isprintable() else repr(sign)[1:-1] for sign in problem)
    return plain if len(plain) <= _MOST_SHOWN else f"{plain[:_MOST_SHOWN]}…"


def _unsigned(envelope: Envelope | None, keys: Sequence[Key]) -> Iterator[str]:
    for key in keys:
        if envelope is None:
            yield f"it is not signed, by {key.name} or anyone: {SIGNATURES} is missing"
        elif not key.signed(envelope):
            yield f"it is not signed by {key.name}"


def _untested(release: Release, envelope: Envelope | None, keys: Sequence[Key]) -> Iterator[str]:
    """What a valid release leaves open."""
    yield from mechanism_named(release.certificate["mechanism"]).not_checked(release)
    if envelope is not None and not keys:
        count = len(envelope.signatures)
        yield f"whose the {count} signature{'s' * (count > 1)} may be: give public keys (`key`)"


def _in_memory(
    release: Release, data: Any, engine: Engine | None, keys: Sequence[Key]
) -> Verification:
    with TemporaryDirectory() as place:
        folder = Path(place) / "release"
        release.save(folder)
        return verify(folder, data, engine, keys=keys)


def _summary(certificate: dict[str, Any]) -> str:
    told: tuple[str, ...] = ()
    with suppress(KeyError, TypeError, ValueError):  # a section may be another mechanism's
        told = mechanism_named(certificate["mechanism"]).describe(certificate).summary
    how = ", ".join((f"{certificate['accountant']['name']} accountant", *told))
    text = (
        f"{certificate['bags']:,} aggregates of {certificate['bag_size']:,} "
        f"row{'s' * (certificate['bag_size'] != 1)}, "
        f"label-DP with ε = {certificate['epsilon']:g}, δ = {certificate['delta']:g} "
        f"({certificate['mechanism']}, {how})"
    )
    warning = certificate["randomness"]["warning"]
    return f"{text}; {warning}" if warning else text


def _table(release: Release, data: Any, engine: Engine | None) -> list[str]:
    """Where a table's features contradict the release, or cannot be read as its features are."""
    check = mechanism_named(release.certificate["mechanism"]).check_features
    if isinstance(data, str | Path):
        find(data)  # a path that leads nowhere is the reader's mistake
    try:
        source = data if isinstance(data, Source) else public_rows(release, data)
        return list(check(release, source, engine or engine_for(source)))
    except InputError as problem:
        return [f"the table is not that of the release: {problem}"]
    except (KeyError, TypeError, ValueError, ArithmeticError) as problem:
        return [f"the table cannot be read as the release says: {problem}"]


def _claim(release: Release) -> list[str]:
    """What follows from the claim, computed again."""
    certificate = release.certificate
    try:
        claim = read_claim(certificate)
        with np.errstate(all="ignore"):  # forged numbers may be as large as doubles are
            return [
                *_fields(claim, certificate),
                *mechanism_named(certificate["mechanism"]).check(release),
            ]
    except (InputError, KeyError, TypeError, ValueError, ArithmeticError) as problem:
        return [f"certificate: the claim makes no sense: {problem}"]


def _fields(claim: Claim, certificate: dict[str, Any]) -> Iterator[str]:
    """Every field that the claim determines, and the budget it must keep."""
    expected = claimed_fields(claim, FloorOutcome.of(certificate))
    shown = {name: certificate.get(name) for name in expected}
    if certificate["floor"] is not None:
        outcome = ("measured", "lower_bound", "added_variance")
        shown["floor"] = {k: v for k, v in certificate["floor"].items() if k not in outcome}
    yield from _differences(shown, expected, "certificate")
    if certificate["numerics"]["aggregate_labels"] != claim.sampler_description:
        yield f"certificate: aggregate labels should be {claim.sampler_description}"
    delta = claim.delta_at(claim.epsilon)
    if not delta <= claim.delta:
        yield (
            f"certificate: δ at ε = {claim.epsilon:g} is {delta:.3g}, "
            f"more than the claimed {claim.delta:g}"
        )
    if certificate["randomness"] != randomness_fields(private=True):
        yield "certificate: drawn from a seed for an experiment, so it is not private"
    if certificate["ledger"] is not None:
        yield from _debit(claim, certificate["ledger"])


def _debit(claim: Claim, told: dict[str, Any]) -> Iterator[str]:
    """What a ledger cannot have said, whatever stands in it: its first entry is no debit, and all
    releases together cost no less than this one."""
    if not 1 <= told["releases"] < told["entry"]:
        yield "certificate.ledger: a ledger has more entries than releases"
    if not claim.delta_at(told["epsilon"] * (1 + _TOLERANCE)) <= told["delta"]:
        yield "certificate.ledger: the total is less than this release costs alone"


def _differences(shown: Any, expected: Any, path: str) -> Iterator[str]:
    if isinstance(expected, dict) and isinstance(shown, dict):
        for name, value in expected.items():
            yield from _differences(shown.get(name), value, f"{path}.{name}")
    elif isinstance(expected, list) and isinstance(shown, list) and len(expected) == len(shown):
        for place, (left, right) in enumerate(zip(shown, expected, strict=True)):
            yield from _differences(left, right, f"{path}[{place}]")
    elif not _close(shown, expected):
        yield f"{path} is {shown!r}, recomputed {expected!r}"


def _close(shown: Any, expected: Any) -> bool:
    if isinstance(expected, float) and isinstance(shown, int | float):
        return math.isclose(shown, expected, rel_tol=_TOLERANCE, abs_tol=1e-300)
    return type(shown) is type(expected) and bool(shown == expected)
