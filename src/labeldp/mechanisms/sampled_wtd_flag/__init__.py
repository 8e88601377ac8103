"""sampled-wtd-FLAg (Algorithm 2): one sum of each of m random bags, with secret weights."""

from dataclasses import dataclass
from typing import Any

from labeldp.errors import positive
from labeldp.mechanisms import (
    Account,
    DrawOptions,
    FloorOptions,
    Inspection,
    Mechanism,
    Options,
    Words,
    draw_words,
    floor_words,
    later,
    option,
)
from labeldp.mechanisms.asked import BagsAsked, FeaturesAsked, ResidualAsked
from labeldp.mechanisms.schema import DRAW, FLOOR


@dataclass(frozen=True, kw_only=True)
class SampledFlagOptions(DrawOptions, FloorOptions, Options):
    """What may be asked of sampled-wtd-FLAg."""

    min_eigenvalue: float | None = option(
        None, "Theorem 2's promise about [X|y] (sampled-wtd-flag, paper).", check=positive
    )


@dataclass(frozen=True, kw_only=True)
class SampledFlagAsked(FeaturesAsked, BagsAsked, ResidualAsked):
    """What `labeldp account` can be asked about sampled-wtd-FLAg."""

    leverage_factor: float | None = option(
        None, "Largest leverage in a bag over features/bag-size, for `exact`.", check=positive
    )
    feature_bound: float | None = option(
        None, "Largest norm of a row of features, for `paper`.", check=positive
    )
    min_eigenvalue: float | None = option(
        None,
        "Promise on features and label together: σ_min² ≥ this·rows, `paper`.",
        check=positive,
    )


def words(document: dict[str, Any]) -> Words:
    """What people read."""
    return floor_words(document) + draw_words(document)


MECHANISM = Mechanism(
    name="sampled-wtd-flag",
    title="one sum of each of m random bags, with secret Gaussian weights (Algorithm 2)",
    options=SampledFlagOptions,
    accountants=("paper", "exact-worst-case", "exact"),
    draft=later(f"{__name__}.plan:draft"),
    run=later(f"{__name__}.run:run"),
    read_claim=later(f"{__name__}.claim:read_claim"),
    check=later(f"{__name__}.check:check"),
    check_features=later(f"{__name__}.check:check_features"),
    words=words,
    sections={"floor": FLOOR, "draw": DRAW},
    account=Account(
        SampledFlagAsked,
        later(f"{__name__}.account:answer"),
        later("labeldp.mechanisms.answers:show"),
    ),
    inspection=Inspection(
        later(f"{__name__}.plan:inspect"), later(f"{__name__}.plan:show_inspection")
    ),
    rehearse=later(f"{__name__}.run:rehearse"),
)
