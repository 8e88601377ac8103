"""sampled-wtd-FLAg (Algorithm 2): one sum of each of m random bags, with secret weights."""

from dataclasses import dataclass
from typing import Any

from labeldp.errors import positive
from labeldp.mechanisms import (
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
from labeldp.mechanisms.schema import DRAW, FLOOR


@dataclass(frozen=True, kw_only=True)
class SampledFlagOptions(DrawOptions, FloorOptions, Options):
    """What may be asked of sampled-wtd-FLAg."""

    min_eigenvalue: float | None = option(
        None, "Theorem 2's promise about [X|y] (sampled-wtd-flag, paper).", check=positive
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
    inspection=Inspection(
        later(f"{__name__}.plan:inspect"), later(f"{__name__}.plan:show_inspection")
    ),
    rehearse=later(f"{__name__}.run:rehearse"),
)
