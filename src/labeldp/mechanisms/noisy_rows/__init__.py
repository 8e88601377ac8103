"""noisy-rows: every row's label with noise of its own, for any learner."""

from dataclasses import dataclass
from pathlib import Path

from labeldp.errors import at_least
from labeldp.mechanisms import (
    ANY_MODEL,
    LINEAR,
    Account,
    GuessOptions,
    Inspection,
    Mechanism,
    Question,
    Trial,
    later,
    option,
    read_schema,
)


def _one(**values: float) -> None:
    at_least(1, **values)


@dataclass(frozen=True, kw_only=True)
class NoisyRowsOptions(GuessOptions):
    """What may be asked of noisy-rows."""

    with_features: bool = option(
        False, "Publish the raw feature columns beside the labels.", flag="--with-features"
    )


@dataclass(frozen=True, kw_only=True)
class NoisyRowsQuestion(Question):
    """What `labeldp account` can be asked about noisy-rows."""

    features: int | None = option(None, "Independent feature columns.", check=_one)
    person_rows: int | None = option(
        None, "The most rows of one person, to cover them together.", check=_one
    )


MECHANISM = Mechanism(
    name="noisy-rows",
    title="every row's label with Laplace or Gaussian noise, for any learner",
    options=NoisyRowsOptions,
    persons=True,
    pure=True,
    closed_form=True,
    serves=(LINEAR, ANY_MODEL),
    draft=later(f"{__name__}.plan:draft"),
    run=later(f"{__name__}.run:run"),
    read_claim=later(f"{__name__}.claim:read_claim"),
    check=later(f"{__name__}.check:check"),
    check_features=later(f"{__name__}.check:check_features"),
    untested=later(f"{__name__}.check:untested"),
    describe=later(f"{__name__}.claim:describe"),
    sections={"row_noise": read_schema(Path(__file__).with_name("row_noise.schema.json"))},
    files={"aggregates": later(f"{__name__}.published:columns")},
    meaning=later(f"{__name__}.published:meaning"),
    account=Account(
        NoisyRowsQuestion, later(f"{__name__}.account:answer"), later(f"{__name__}.account:show")
    ),
    inspection=Inspection(
        later(f"{__name__}.account:inspect"), later(f"{__name__}.account:show_inspection")
    ),
    trial=Trial(
        later(f"{__name__}.trial:moves"),
        later(f"{__name__}.trial:most"),
        later(f"{__name__}.trial:Rowwise"),
    ),
)
