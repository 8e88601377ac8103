"""wtd-FLAg (Algorithm 1): m sums of all rows with secret Gaussian weights."""

from dataclasses import dataclass
from typing import Any

from labeldp.mechanisms.options import (
    CountQuestion,
    FeaturesQuestion,
    FloorOptions,
    Options,
    ResidualQuestion,
    option,
)
from labeldp.mechanisms.protocol import (
    Account,
    Description,
    Inspection,
    Mechanism,
    describe_floor,
    describe_person,
    later,
    of_folder,
)
from labeldp.mechanisms.registry import FLOOR


@dataclass(frozen=True, kw_only=True)
class WtdFlagOptions(FloorOptions, Options):
    """What may be asked of wtd-FLAg."""

    compact: bool = option(
        False, "Publish wtd-flag in d+1 rows that carry the same information.", flag="--compact"
    )


@dataclass(frozen=True, kw_only=True)
class WtdFlagQuestion(FeaturesQuestion, CountQuestion, ResidualQuestion):
    """What `labeldp account` can be asked about wtd-FLAg."""


def _describe(document: dict[str, Any]) -> Description:
    return describe_floor(document) + describe_person(document)


_here = of_folder(__name__)

MECHANISM = Mechanism(
    name="wtd-flag",
    title="m sums of all rows with secret Gaussian weights (Algorithm 1)",
    options=WtdFlagOptions,
    closed_form=True,
    least_added=_here("plan:least_added"),
    accountants=("paper", "exact-worst-case", "exact"),
    draft=_here("plan:draft"),
    run=_here("run:run"),
    read_claim=_here("claim:read_claim"),
    check=_here("claim:check"),
    check_features=_here("claim:check_features"),
    untested=_here("claim:untested"),
    describe=_describe,
    persons=True,
    sections={"floor": FLOOR},
    meaning=later("labeldp.mechanisms.layouts:sketched"),
    account=Account(WtdFlagQuestion, _here("account:answer"), _here("account:show")),
    inspection=Inspection(_here("plan:inspect"), _here("plan:show_inspection")),
)
