"""How far one row's label, or all labels of a person, can move the aggregates (theory §9)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from labeldp.data.source import Source
from labeldp.exact.person_norms import PersonScan, largest_person_norms
from labeldp.exact.row_norms import RowNormScan, Weights, round_length_up
from labeldp.features.feature_map import FeatureMap
from labeldp.mechanisms.noise_shape import NoiseCovariance
from labeldp.mechanisms.shaped_flag.claim import ShapedFlagClaim
from labeldp.passes.engine import Engine
from labeldp.release.claim import Person


@dataclass(frozen=True)
class Lengths:
    """Measures what a claim's `length` bounds: a tally for one pass, and what it showed."""

    claim: ShapedFlagClaim
    features: FeatureMap
    weights: Weights

    @property
    def tally(self) -> RowNormScan | PersonScan:
        """For the pass over the rows in question."""
        kind = RowNormScan if self.claim.person is None else PersonScan
        return kind(self.features, self.weights)

    def problem(self, seen: Any, source: Source, engine: Engine) -> str | None:
        """Where what that pass saw exceeds the claim; of many persons it takes further passes."""
        claim = self.claim
        if claim.person is None:
            if seen.is_within(claim.length):
                return None
            norm = math.sqrt(seen.maximum)
            return f"a row's weights have the norm {norm:.6g}, {_said(claim.length)}"
        scan = PersonScan(self.features, self.weights)
        found = largest_person_norms(
            scan, lambda each: engine.run_pass("persons", source, each), seen
        )
        if found.rows > claim.person.rows:
            return f"a person has {found.rows} rows, {_said(claim.person.rows)}"
        if found.length > claim.length:
            return f"a person's weights add up to {found.length:.6g}, {_said(claim.length)}"
        return None


def _said(most: float) -> str:
    return f"the certificate says {most:.6g} at most"


def person_length(
    shape: NoiseCovariance, features: FeatureMap, source: Source, engine: Engine
) -> tuple[float, Person | None]:
    """The length that the guarantee rests on, of one row or of all rows of a person."""
    if source.person is None:
        return shape.length, None
    scan = PersonScan(features, shape.weights)
    found = largest_person_norms(scan, lambda each: engine.run_pass("persons", source, each))
    return round_length_up(found.length), Person(source.person, found.rows)
