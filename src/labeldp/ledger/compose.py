"""Several releases together: what they cost a row of one table, or a person in several.

Claims are composed by their privacy profiles (theory §13), never by their (ε, δ). All releases of
one table count for every row. Where they protect persons, the persons are those of one column of
ids, in one table or in several; a release of the same table that protects single rows then counts
for as many rows as a person has. Releases that drew the same bags share that draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.compose import compose as compose_profiles, gaussian_mu
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.accounting.subsampling import SubsampledProfile
from labeldp.errors import InputError, ReleaseError, to_float
from labeldp.ledger.privacy_loss import STEP, WITHIN, PrivacyLoss, privacy_loss
from labeldp.mechanisms.registry import read_claim
from labeldp.release.certificate import Claim
from labeldp.release.files import Release
from labeldp.verification import verify

ONE_ROW = "one row's label, in all releases of this table"
_FACTORS = (0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 3.0, 4.0)


@dataclass(frozen=True)
class Joint:
    """What releases guarantee together."""

    privacy_profile: PrivacyProfile
    unit: str
    """Whose labels are covered."""
    claims: tuple[Claim, ...]

    def delta(self, epsilon: float) -> float:
        """Return an upper bound of δ(ε)."""
        return self.privacy_profile.delta(to_float("epsilon", epsilon)).upper

    def epsilon(self, delta: float) -> float:
        """Return the smallest ε that is certified at δ; inf if there is none."""
        return epsilon_at(self.privacy_profile, to_float("delta", delta))

    @property
    def mu(self) -> float | None:
        """μ of the Gaussian mechanism that they are together; None if they are not one."""
        return gaussian_mu(self.privacy_profile)

    @property
    def largest_delta(self) -> float:
        """The largest δ of the releases."""
        return max(claim.delta for claim in self.claims)

    @property
    def sum_of_epsilons(self) -> float:
        """What adding up would say: more, and at the sum of all δ."""
        return math.fsum(claim.epsilon for claim in self.claims)

    def curve(self, epsilon: float) -> list[list[float]]:
        """Return [ε, δ(ε)] around an ε."""
        return [[e, self.delta(e)] for e in (epsilon * factor for factor in _FACTORS)]

    def loss(self, step: float = STEP, within: float = WITHIN) -> PrivacyLoss:
        """Return the loss for other accountants; its δ is never below that of this profile."""
        return privacy_loss(self.privacy_profile, step, within)

    def to_pld(self) -> Any:
        """Return a pessimistic loss of `dp_accounting`, to compose with other mechanisms."""
        return self.loss().to_pld()


def compose(releases: Iterable[Release | str | Path] | Release | str | Path) -> Joint:
    """What releases guarantee together.

    Parameters
    ----------
    releases
        directories, which are verified, or releases in memory; one alone will do.

    Returns
    -------
    Joint
        The guarantee of all of them, by their laws.

    Raises
    ------
    ReleaseError
        a release does not verify.
    InputError
        the releases are not of one table, or of the same persons.

    Examples
    --------
    >>> import labeldp
    >>> table = {"age": list(range(20, 70)) * 20, "income": [30.0, 50.0] * 500}
    >>> made = labeldp.plan(table, 1, 0, label="income", label_range=(0, 100))
    >>> two = [made.release(table) for _ in range(2)]
    >>> len(labeldp.compose(two).claims)
    2
    """
    several = [releases] if isinstance(releases, str | Path | Release) else releases
    if not isinstance(several, Iterable):
        kind = type(several).__name__
        raise InputError(f"`releases` must be directories or releases, not of type {kind}")
    certificates = [_certificate(each) for each in several]
    if not certificates:
        raise InputError("there is nothing to compose: name at least one release")
    _check_persons(certificates)
    claims = [read_claim(each) for each in certificates]
    group_sizes, tables = _group_sizes(claims)
    return compose_claims(claims, group_sizes, tables)


def compose_claims(claims: Sequence[Claim], group_sizes: Sequence[int], tables: int = 1) -> Joint:
    """Compose claims that concern the same rows, or the same persons in so many tables.

    A claim that protects single rows counts for as many of them as its group size says.
    """
    profiles = [
        claim.privacy_profile
        if claim.person is not None or size == 1
        else claim.privacy_profile.group(size)
        for claim, size in zip(claims, group_sizes, strict=True)
    ]
    columns = sorted({claim.person.column for claim in claims if claim.person is not None})
    unit = ONE_ROW
    if columns:
        where = "all releases of this table" if tables == 1 else f"{tables} tables"
        ids = " and ".join(map(repr, columns))
        unit = f"one person's labels, all rows in {where}: of one id in column {ids}"
    return Joint(_compose_profiles(claims, profiles), unit, tuple(claims))


def _certificate(release: Release | str | Path) -> dict[str, Any]:
    if isinstance(release, Release):
        return release.certificate
    report = verify(release)
    if not report.valid:
        raise ReleaseError(f"{release} does not verify: {report.problems[0]}")
    return Release.load(release).certificate


def _check_persons(certificates: Sequence[dict[str, Any]]) -> None:
    """Of the same features, persons with other numbers of rows are other persons."""
    most: dict[str, int] = {}
    for certificate in certificates:
        if (person := certificate.get("person")) is not None:
            known = most.setdefault(certificate["digests"]["feature_sums"], person["rows"])
            if known != person["rows"]:
                raise InputError(
                    f"of one table, persons have up to {known:,} and up to {person['rows']:,} "
                    "rows: the ids of these releases are not the same, so that nothing can be said "
                    "of a person; compose releases made with the same ids"
                )


def _group_sizes(claims: Sequence[Claim]) -> tuple[list[int], int]:
    """Return how many rows of a person each claim is about, and how many tables there are.

    Certificates do not say which table they are of. Tables of as many rows cannot be told apart.
    """
    rows = [int(claim.to_json()["rows"]) for claim in claims]
    columns = {claim.person.column for claim in claims if claim.person is not None}
    if not columns and len(set(rows)) > 1:
        raise InputError(
            f"releases of {min(rows):,} and of {max(rows):,} rows are not of one table, so no "
            "row is in both; compose those of one table, or releases made with `person`"
        )
    if len(columns) > 1:
        raise InputError(
            f"ids stand in columns {' and '.join(sorted(map(repr, columns)))}: nothing says that "
            "they are of the same persons; compose releases made with one `person` column"
        )
    if not columns:
        return [1] * len(claims), 1
    most: dict[int, int] = {}
    for n, claim in zip(rows, claims, strict=True):
        if claim.person is not None:
            most[n] = max(most.get(n, 0), claim.person.rows)
    if not set(rows) <= most.keys():
        raise InputError(
            "how many rows a person has in a table is known of no release of "
            f"{min(set(rows) - most.keys()):,} rows; make it with `person`, or compose it apart"
        )
    return [most[n] for n in rows], len(most)


def _compose_profiles(
    claims: Sequence[Claim], profiles: Sequence[PrivacyProfile]
) -> PrivacyProfile:
    """Compose profiles; of releases that drew the same bags given these, then over the draw."""
    independent: list[PrivacyProfile] = []
    by_seed: dict[str, list[tuple[float, PrivacyProfile]]] = {}
    for claim, profile in zip(claims, profiles, strict=True):
        subsampling, draw = profile.subsampling(), claim.to_json()["draw"]
        if subsampling is None or draw is None:
            independent.append(profile)
        else:
            by_seed.setdefault(draw["seed"], []).append(subsampling)
    for drawn in by_seed.values():
        # One seed draws the same bags; at other chances of a row, the sum of them bounds the
        # chance that the row is in any bag.
        chance = min(1.0, math.fsum({chance for chance, _ in drawn}))
        given_bags = compose_profiles(profile for _, profile in drawn)
        independent.append(SubsampledProfile(given_bags, chance))
    return compose_profiles(independent)
