"""noisy-rows: every row's label with noise of its own, for any learner."""

from dataclasses import dataclass
from pathlib import Path

from labeldp.errors import at_least
from labeldp.mechanisms.options import GuessOptions, Question, option
from labeldp.mechanisms.protocol import (
    ANY_MODEL,
    LINEAR,
    Account,
    Inspection,
    Mechanism,
    of_folder,
)
from labeldp.mechanisms.registry import read_schema


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


_here = of_folder(__name__)

MECHANISM = Mechanism(
    name="noisy-rows",
    title="every row's label with Laplace or Gaussian noise, for any learner",
    options=NoisyRowsOptions,
    persons=True,
    pure=True,
    closed_form=True,
    serves=(LINEAR, ANY_MODEL),
    row_noise=_here("noise:of_range"),
    draft=_here("plan:draft"),
    run=_here("run:run"),
    read_claim=_here("claim:read_claim"),
    check=_here("check:check"),
    check_features=_here("check:check_features"),
    untested=_here("check:untested"),
    describe=_here("claim:describe"),
    sections={"row_noise": read_schema(Path(__file__).with_name("row_noise.schema.json"))},
    files={"aggregates": _here("published:columns")},
    meaning=_here("published:meaning"),
    account=Account(NoisyRowsQuestion, _here("account:answer"), _here("account:show")),
    inspection=Inspection(_here("account:inspect"), _here("account:show_inspection")),
)
