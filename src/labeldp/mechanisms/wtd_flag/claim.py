"""What wtd-FLAg promises, and how that is checked: m aggregates over one residual floor."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from labeldp.accounting.accountants import ACCOUNTANTS
from labeldp.accounting.privacy_profile import PrivacyProfile
from labeldp.data.source import Source
from labeldp.exact.cholesky import verified_cholesky
from labeldp.exact.gram import GramAccumulator
from labeldp.exact.leverage import LeverageScan
from labeldp.mechanisms.checks import other_table
from labeldp.mechanisms.design_checks import check_design
from labeldp.mechanisms.design_summary import inflation_for, most_rows
from labeldp.mechanisms.floor_checks import check_floor_release, untested_floor
from labeldp.mechanisms.forecast import relative_excess, sketched_error
from labeldp.mechanisms.residual_floor import FloorClaim, read_floor
from labeldp.passes.engine import Engine
from labeldp.release.claim import AddedError, FloorOutcome, read_head
from labeldp.release.files import Release

BASIS = {
    "exact": "exact law of the privacy loss given the features' largest leverage; "
    "supremum over neighbours certified",
    "exact-worst-case": "exact law of the privacy loss for any features; supremum over neighbours "
    "certified",
    "paper": "Theorem 1 of 'Label Differential Privacy via Aggregation'",
}
PERSON_BASIS = "; for as many labels at once as a person has rows, wherever these stand"


@dataclass(frozen=True)
class WtdFlagClaim(FloorClaim):
    """`bags` aggregates of a table whose residual sum of squares is at least `floor`."""

    mechanism: ClassVar[str] = "wtd-flag"

    compact: bool = False
    """Published as d+1 rows that carry all that the aggregates do (theory §8)."""

    @property
    def law(self) -> PrivacyProfile:
        """Of one label; of all rows of a person at once by the same law (`Facts.family`)."""
        law = ACCOUNTANTS[self.accountant](self.facts, self.bags, self.floor, self.measurement)
        return law if self.person is None else law.group(self.protected)

    def utility(self) -> dict[str, Any]:
        return {
            "relative_to": "residual sum of squares of the fit with all labels, "
            "plus floor.added_variance",
            **relative_excess(self.facts.features or 0, self.bags),
        }

    def added_error(self, outcome: FloorOutcome | None) -> AddedError:
        """(σ² + s²)·d/(m−d−1) over the rows, σ² as it was measured (theory §6)."""
        measured, bounds = self.residual_ms(outcome)
        return sketched_error(
            self.facts.features or 0,
            self.bags,
            bounds,
            width=self.facts.width,
            residual_ms=measured,
            noise_ms=(outcome.added_variance if outcome else 0.0) / self.facts.rows,
            basis="the residual as floor.measured shows it, and floor.added_variance"
            if measured is not None
            else "bounds for any residual that the label range allows, and floor.added_variance",
        )

    def extent(self, design: int, raw: int) -> tuple[int, int]:
        rows, columns = super().extent(design, raw)
        return (design + 1 if self.compact else rows), columns

    def label_noise_std(self, outcome: FloorOutcome | None) -> float | None:
        """Beside what secret weights do."""
        return None if outcome is None else math.sqrt(outcome.added_variance)

    def to_json(self) -> dict[str, Any]:
        return {
            **self.head(BASIS[self.accountant] + ("" if self.person is None else PERSON_BASIS)),
            "form": "compact" if self.compact else "rows",
            "bag_size": self.facts.rows,
            "rows": self.facts.rows,
            "rank": self.facts.features,
            **self.facts_json("the residual sum of squares"),
            "draw": None,
            "noise": None,
        }


def read_claim(document: dict[str, Any]) -> WtdFlagClaim:
    """The inverse of `to_json`."""
    return WtdFlagClaim(
        **read_head(document),
        **read_floor(document, rows=int(document["rows"]), rank=int(document["rank"])),
        compact=document["form"] == "compact",
    )


def check(release: Release) -> Iterator[str]:
    """Where the published numbers contradict the claim."""
    yield from check_floor_release(release, read_claim(release.certificate), scatter=True)


def untested(release: Release) -> Iterator[str]:
    """What `check` cannot see."""
    yield from untested_floor(release, scatter=True)


def check_features(release: Release, source: Source, engine: Engine) -> Iterator[str]:
    """Whether rows, columns, leverage and the allowance for rounding are the table's."""
    certificate = release.certificate
    gram = engine.run_pass("feature sums", source, GramAccumulator(release.features))
    if (problem := other_table(release, gram)) is not None:
        yield problem
        return
    factor = verified_cholesky(gram, release.features)
    if factor.kept != release.features.kept_columns:
        yield "the released columns are not independent in the table"
        return
    leverage = engine.run_pass("leverages", source, LeverageScan(release.features, factor))
    claimed = certificate["max_leverage"]
    if claimed is not None and claimed < leverage.maximum:
        yield f"the largest leverage is {leverage.maximum:.6g}, the certificate says {claimed:.6g}"
    if certificate["inflation"] < inflation_for(factor.error_bound):
        yield "the certificate's inflation is too small for these features"
    claim, person = read_claim(certificate), most_rows(release.features, source, engine)
    if person is not None and person.rows > claim.protected:
        yield f"a person has {person.rows} rows, the certificate says {claim.protected} at most"
    yield from check_design(release, factor)
