"""Several releases together: what they cost a row of one table, or a person in several.

Claims are composed by their privacy profiles (theory §13), never by their (ε, δ). All releases of
one table count for every row. Where they protect persons, the persons are those of one column of
ids, in one table or in several. A ledger also composes them with releases of the same table that
protect single rows. Releases that drew the same bags share that draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.compose import compose as compose_profiles, gaussian_mu
from labeldp.accounting.privacy_profile import PrivacyProfile, StatedProfile, SubsampledProfile
from labeldp.display import ReprMixin
from labeldp.errors import (
    InputError,
    MissingExtraError,
    ReleaseError,
    describe_value,
    positive,
    to_float,
)
from labeldp.mechanisms.registry import read_claim
from labeldp.releases.certificate import CURVE, Claim, read_common_fields
from labeldp.releases.files import Release
from labeldp.verification import verify

ONE_ROW = "one row's label, in all releases of this table"
_POINTS = 2000
"""Of a curve for other accountants."""
_ENDS = (0.0, 1e-12, 1e-6, 1e-3)
"""That curve ends at the first of these δ that it reaches."""


@dataclass(frozen=True, repr=False)
class Joint(ReprMixin):
    """What releases guarantee together."""

    privacy_profile: PrivacyProfile
    unit: str
    """Whose labels are covered."""
    claims: tuple[Claim, ...]

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        return self.facts(self.largest_delta)

    def facts(self, delta: float) -> tuple[str, list[tuple[str, str]]]:
        """Return a title and what is guaranteed at δ, for people."""
        facts = [
            ("protects", self.unit),
            ("ε", f"{self.epsilon(delta):.6g} at δ = {delta:g}"),
            ("sum of their ε", f"{self.sum_of_epsilons:g}"),
            ("as a Gaussian mechanism", "–" if self.mu is None else f"μ = {self.mu:.6g}"),
        ]
        return f"{len(self.claims)} release{'s' * (len(self.claims) != 1)} together", facts

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
        """ε by basic composition: larger, and at the sum of all δ."""
        return math.fsum(claim.epsilon for claim in self.claims)

    def curve(self, epsilon: float) -> list[list[float]]:
        """Return [ε, δ(ε)] around an ε."""
        return [[e, self.delta(e)] for e in (epsilon * factor for factor in CURVE)]

    def to_pld(self, step: float = 1e-4) -> Any:
        """Return a `PrivacyLossDistribution` of `dp_accounting`, to compose with other mechanisms.

        It is never below this guarantee. δ is a convex function of e^ε, and so are straight lines
        between upper bounds of it ("connect the dots"), here at multiples of `step`. The other
        direction has the same curve, δ(−ε) = 1 − e^−ε·(1 − δ(ε)).
        """
        try:
            from dp_accounting.pld import pld_pmf, privacy_loss_distribution as losses
        except ImportError:
            raise MissingExtraError("a loss for dp-accounting", "accountants") from None
        positive(step=step)
        ends = (self.epsilon(delta) for delta in _ENDS)
        end = next((each for each in ends if math.isfinite(each)), 0.0)
        points = np.unique(np.ceil(np.linspace(0.0, end, _POINTS) / step)).astype(np.int64)
        deltas = np.minimum.accumulate([self.delta(point * step) for point in points.tolist()])
        mirrored = 1.0 - np.exp(-points * step) * (1.0 - deltas)
        pmf = pld_pmf.create_pmf_pessimistic_connect_dots(
            step,
            np.concatenate([-points[:0:-1], points]),
            np.concatenate([mirrored[:0:-1], deltas]),
        )
        return losses.PrivacyLossDistribution(pmf)


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
    >>> plan = labeldp.plan(table, 1, 0, label="income", label_range=(0, 100))
    >>> two = [plan.release(table) for _ in range(2)]
    >>> len(labeldp.compose(two).claims)
    2
    """
    several = [releases] if isinstance(releases, str | Path | Release) else releases
    if not isinstance(several, Iterable):
        raise InputError(
            f"`releases` must be directories or releases, not {describe_value(several)}"
        )
    certificates: list[dict[str, Any]] = []
    for release in several:
        if not isinstance(release, Release):
            report = verify(release)
            if not report.valid:
                raise ReleaseError(f"{release} does not verify: {report.problems[0]}")
            release = Release.load(release, verify=False)
        certificates.append(release.certificate)
    if not certificates:
        raise InputError("there is nothing to compose: name at least one release")
    claims, tables = list(map(read_claim, certificates)), _count_tables(certificates)
    return compose_claims(claims, [1] * len(claims), tables)


@dataclass(frozen=True, kw_only=True)
class StatedClaim(Claim):
    """A claim of an early version, whose accountant is gone: it counts as it was stated."""

    mechanism: ClassVar[str] = "of an early version"
    basis = "as stated"

    @property
    def privacy_profile(self) -> PrivacyProfile:
        return StatedProfile(self.epsilon, self.delta)


def claim_of_debit(document: dict[str, Any]) -> Claim:
    """Return the claim of a debit. None is forgotten, and none makes a ledger useless."""
    try:
        return read_claim(document)
    except InputError:
        return StatedClaim(**read_common_fields(document))


def compose_claims(claims: Sequence[Claim], group_sizes: Sequence[int], tables: int = 1) -> Joint:
    """Compose claims that concern the same rows, or the same persons in so many tables.

    A claim that protects single rows counts for as many of them as its group size says. Releases
    that drew the same bags are composed given these bags, and then over the draw.
    """
    profiles: list[PrivacyProfile] = []
    by_seed: dict[str, list[SubsampledProfile]] = {}
    for claim, size in zip(claims, group_sizes, strict=True):
        profile, draw = claim.privacy_profile, claim.to_json()["draw"]
        if claim.person is None and size > 1:
            profile = profile.group(size)
        if isinstance(profile, SubsampledProfile) and draw is not None:
            by_seed.setdefault(draw["seed"], []).append(profile)
        else:
            profiles.append(profile)
    for drawn in by_seed.values():
        # One seed draws the same bags; at other chances of a row, the sum of them bounds the
        # chance that the row is in any bag.
        chance = min(1.0, math.fsum({each.chance for each in drawn}))
        given_bags = compose_profiles(each.curve for each in drawn)
        profiles.append(SubsampledProfile(given_bags, chance))
    columns = sorted({claim.person.column for claim in claims if claim.person is not None})
    unit = ONE_ROW
    if columns:
        where = "all releases of this table" if tables == 1 else f"{tables} tables"
        ids = " and ".join(map(repr, columns))
        unit = f"one person's labels, all rows in {where}: of one id in column {ids}"
    return Joint(compose_profiles(profiles), unit, tuple(claims))


def _count_tables(certificates: Sequence[dict[str, Any]]) -> int:
    """Return how many tables releases are of; refuse those that have no row or person in common.

    Certificates do not say which table they are of. Tables of as many rows cannot be told apart.
    """
    rows, sizes = {certificate["rows"] for certificate in certificates}, dict[str, int]()
    persons = [certificate.get("person") for certificate in certificates]
    columns = {None if person is None else person["column"] for person in persons}
    if len(columns) > 1:
        raise InputError(
            "some releases protect single rows and others persons, or persons by ids of another "
            "column; compose those of one kind, or make all of them on one ledger, which sees ids"
        )
    if columns == {None} and len(rows) > 1:
        raise InputError(
            f"releases of {min(rows):,} and of {max(rows):,} rows are not of one table, so no "
            "row is in both; compose those of one table, or releases made with `person`"
        )
    for certificate, person in zip(certificates, persons, strict=True):
        # Of the same features, persons with other numbers of rows are other persons.
        size = 1 if person is None else person["rows"]
        known = sizes.setdefault(certificate["digests"]["feature_sums"], size)
        if known != size:
            raise InputError(
                f"of one table, persons have up to {known:,} and up to {size:,} "
                "rows: the ids of these releases are not the same, so that nothing can be said "
                "of a person; compose releases made with the same ids"
            )
    return len(rows)
