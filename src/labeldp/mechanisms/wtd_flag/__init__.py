"""wtd-FLAg (Algorithm 1): m sums of all rows with secret Gaussian weights."""

from dataclasses import dataclass
from typing import Any

from labeldp.mechanisms import (
    FLOOR,
    Account,
    CountQuestion,
    Description,
    FeaturesQuestion,
    FloorOptions,
    Inspection,
    Mechanism,
    Options,
    ResidualQuestion,
    Trial,
    describe_floor,
    describe_person,
    later,
    option,
)


@dataclass(frozen=True, kw_only=True)
class WeightedFlagOptions(FloorOptions, Options):
    """What may be asked of wtd-FLAg."""

    compact: bool = option(
        False, "Publish wtd-flag in d+1 rows that carry the same information.", flag="--compact"
    )


@dataclass(frozen=True, kw_only=True)
class WeightedFlagQuestion(FeaturesQuestion, CountQuestion, ResidualQuestion):
    """What `labeldp account` can be asked about wtd-FLAg."""


def _describe(document: dict[str, Any]) -> Description:
    return describe_floor(document) + describe_person(document)


MECHANISM = Mechanism(
    name="wtd-flag",
    title="m sums of all rows with secret Gaussian weights (Algorithm 1)",
    options=WeightedFlagOptions,
    closed_form=True,
    least_added=later(f"{__name__}.plan:least_added"),
    accountants=("paper", "exact-worst-case", "exact"),
    draft=later(f"{__name__}.plan:draft"),
    run=later(f"{__name__}.run:run"),
    read_claim=later(f"{__name__}.claim:read_claim"),
    check=later(f"{__name__}.claim:check"),
    check_features=later(f"{__name__}.claim:check_features"),
    untested=later(f"{__name__}.claim:untested"),
    describe=_describe,
    persons=True,
    sections={"floor": FLOOR},
    meaning=later("labeldp.mechanisms.layouts:sketched"),
    account=Account(
        WeightedFlagQuestion, later(f"{__name__}.account:answer"), later(f"{__name__}.account:show")
    ),
    inspection=Inspection(
        later(f"{__name__}.plan:inspect"), later(f"{__name__}.plan:show_inspection")
    ),
    trial=Trial(
        later(f"{__name__}.trial:moves"),
        later(f"{__name__}.trial:most"),
        later(f"{__name__}.trial:Sketched"),
        private=("floor", "utility", "label_noise_std"),
        any_labels=later(f"{__name__}.trial:any_labels"),
        refusal=later(f"{__name__}.trial:refusal"),
    ),
)
