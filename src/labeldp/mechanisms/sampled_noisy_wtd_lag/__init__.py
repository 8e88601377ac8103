"""sampled-noisy-wtd-LAg (Algorithm 3): noisy weighted sums of the labels of m random bags."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from labeldp.errors import positive
from labeldp.mechanisms.options import BagsQuestion, DrawOptions, Options, option
from labeldp.mechanisms.protocol import (
    Account,
    Description,
    Inspection,
    Mechanism,
    describe_draw,
    later,
    number,
    of_folder,
)
from labeldp.mechanisms.registry import DRAW, read_schema


@dataclass(frozen=True, kw_only=True)
class SampledNoisyWtdLagOptions(DrawOptions, Options):
    """What may be asked of sampled-noisy-wtd-LAg."""

    noise_std: float | None = option(
        None, "Noise on labels, in label units; default: what the budget needs.", check=positive
    )
    noisy_fraction: float | None = option(
        None, "Part of the rows whose labels carry noise; default: all."
    )
    noisy_column: str | None = option(
        None, "Public column that marks the rows whose labels carry noise."
    )


@dataclass(frozen=True, kw_only=True)
class SampledNoisyWtdLagQuestion(BagsQuestion):
    """What `labeldp account` can be asked about sampled-noisy-wtd-LAg."""

    noisy_fraction: float | None = option(
        None, "Part of the rows whose labels carry noise.", check=positive
    )
    noise_std: float | None = option(
        None, "Deviation of that noise; 1 for labels scaled to -1 … 1.", check=positive
    )


def describe(document: dict[str, Any]) -> Description:
    """What people read."""
    noise = document["noise"]
    std, fraction = f"deviation {number(noise['std'])} on", noise["fraction"]
    which = (
        f"rows marked by {noise['column']}" if noise["column"] else f"{fraction:.0%} of the labels"
    )
    told = Description(
        plan=(("noise", f"{std} {which}"),),
        release=(("noise", f"{std} noisy rows' labels"),),
        summary=("noise on labels",),
    )
    return told + describe_draw(document)


_here = of_folder(__name__)

MECHANISM = Mechanism(
    name="sampled-noisy-wtd-lag",
    title="noisy sums of the labels of m random bags, with public Gaussian weights (Algorithm 3)",
    options=SampledNoisyWtdLagOptions,
    accountants=("paper", "exact-worst-case", "exact"),
    draft=_here("plan:draft"),
    run=_here("run:run"),
    read_claim=_here("claim:read_claim"),
    check=_here("claim:check"),
    check_features=_here("claim:check_features"),
    untested=_here("claim:untested"),
    describe=describe,
    single_rows="a person's rows may stand in several bags, whose costs add up",
    sections={"draw": DRAW, "noise": read_schema(Path(__file__).with_name("noise.schema.json"))},
    files={
        "aggregates": _here("published:columns"),
        "bags": _here("published:bag_columns"),
    },
    meaning=_here("published:meaning"),
    account=Account(
        SampledNoisyWtdLagQuestion,
        _here("account:answer"),
        later("labeldp.mechanisms.account:show"),
    ),
    inspection=Inspection(_here("plan:inspect"), _here("plan:show_inspection")),
    rehearse=_here("run:rehearse"),
)
