"""wtd-FLAg (Algorithm 1): m sums of all rows with secret Gaussian weights."""

from dataclasses import dataclass

from labeldp.mechanisms import (
    Account,
    FloorOptions,
    Inspection,
    Mechanism,
    Options,
    floor_words,
    later,
    option,
)
from labeldp.mechanisms.asked import CountAsked, FeaturesAsked, ResidualAsked
from labeldp.mechanisms.schema import FLOOR


@dataclass(frozen=True, kw_only=True)
class WeightedFlagOptions(FloorOptions, Options):
    """What may be asked of wtd-FLAg."""

    compact: bool = option(
        False, "Publish wtd-flag in d+1 rows that carry the same information.", flag="--compact"
    )


@dataclass(frozen=True, kw_only=True)
class WeightedFlagAsked(FeaturesAsked, CountAsked, ResidualAsked):
    """What `labeldp account` can be asked about wtd-FLAg."""


MECHANISM = Mechanism(
    name="wtd-flag",
    title="m sums of all rows with secret Gaussian weights (Algorithm 1)",
    options=WeightedFlagOptions,
    accountants=("paper", "exact-worst-case", "exact"),
    draft=later(f"{__name__}.plan:draft"),
    run=later(f"{__name__}.run:run"),
    read_claim=later(f"{__name__}.claim:read_claim"),
    check=later(f"{__name__}.check:check"),
    check_features=later(f"{__name__}.check:check_features"),
    words=floor_words,
    sections={"floor": FLOOR},
    account=Account(
        WeightedFlagAsked, later(f"{__name__}.account:answer"), later(f"{__name__}.account:show")
    ),
    inspection=Inspection(
        later(f"{__name__}.plan:inspect"), later(f"{__name__}.plan:show_inspection")
    ),
)
