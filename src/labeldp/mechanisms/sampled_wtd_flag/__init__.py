"""sampled-wtd-FLAg (Algorithm 2): one sum of each of m random bags, with secret weights."""

from dataclasses import dataclass
from typing import Any

from labeldp.errors import positive
from labeldp.mechanisms.options import (
    BagsQuestion,
    DrawOptions,
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
    describe_draw,
    describe_floor,
    later,
    of_folder,
)
from labeldp.mechanisms.registry import DRAW, FLOOR


@dataclass(frozen=True, kw_only=True)
class SampledWtdFlagOptions(DrawOptions, FloorOptions, Options):
    """What may be asked of sampled-wtd-FLAg."""

    min_eigenvalue: float | None = option(
        None, "Theorem 2's promise about [X|y] (sampled-wtd-flag, paper).", check=positive
    )


@dataclass(frozen=True, kw_only=True)
class SampledWtdFlagQuestion(FeaturesQuestion, BagsQuestion, ResidualQuestion):
    """What `labeldp account` can be asked about sampled-wtd-FLAg."""

    leverage_factor: float | None = option(
        None, "Largest leverage in a bag over features/bag-size, for exact.", check=positive
    )
    feature_bound: float | None = option(
        None, "Largest norm of a row of features, for paper.", check=positive
    )
    min_eigenvalue: float | None = option(
        None,
        "Promise on features and label together: σ_min² ≥ this·rows, for paper.",
        check=positive,
    )


def describe(document: dict[str, Any]) -> Description:
    """What people read."""
    return describe_floor(document) + describe_draw(document)


_here = of_folder(__name__)

MECHANISM = Mechanism(
    name="sampled-wtd-flag",
    title="one sum of each of m random bags, with secret Gaussian weights (Algorithm 2)",
    options=SampledWtdFlagOptions,
    accountants=("paper", "exact-worst-case", "exact"),
    draft=_here("plan:draft"),
    run=_here("run:run"),
    read_claim=_here("claim:read_claim"),
    check=_here("claim:check"),
    check_features=_here("claim:check_features"),
    untested=_here("claim:untested"),
    describe=describe,
    single_rows="a person's rows may stand in several bags, whose costs add up",
    sections={"floor": FLOOR, "draw": DRAW},
    files={"bags": later("labeldp.mechanisms.layouts:members")},
    meaning=later("labeldp.mechanisms.layouts:sketched"),
    account=Account(
        SampledWtdFlagQuestion,
        _here("account:answer"),
        later("labeldp.mechanisms.account:show"),
    ),
    inspection=Inspection(_here("plan:inspect"), _here("plan:show_inspection")),
    rehearse=_here("run:rehearse"),
)
