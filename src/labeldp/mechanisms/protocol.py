"""What a mechanism declares of itself: all that the rest of the package knows of it.

`plan`, the command line and its help, `labeldp account`, the certificate's schema, `verify` and
`inspect` are derived from this; nothing else names a mechanism. A declaration is quick to import:
what it refers to with `later` is imported when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Literal, get_args

from labeldp.mechanisms.options import Options

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from labeldp.data.source import Source
    from labeldp.mechanisms.bags import SimulationInputs
    from labeldp.mechanisms.design_summary import DesignSummary
    from labeldp.mechanisms.options import Request
    from labeldp.mechanisms.plans import Plan
    from labeldp.passes.engine import Engine
    from labeldp.release.claim import Claim
    from labeldp.release.files import Release
    from labeldp.release.label_model import LabelModel
    from labeldp.release.pending import PendingRelease
    from labeldp.sampling.streams import Randomness

Document = dict[str, Any]
"""A plan, a certificate or an answer as JSON."""
Fact = tuple[str, str]
Use = Literal["linear", "any-model"]
USES: tuple[Use, Use] = get_args(Use)
LINEAR, ANY_MODEL = USES
"""What a release may be wanted for."""
Layout = Callable[["Release"], "pa.Schema"]
"""The columns that a Parquet file of a release must have."""
REMARKS = "words"
"""The heading of a column of remarks; it is not shown."""


@dataclass(frozen=True)
class Panel:
    """A table for people; without a header, names and what they are."""

    title: str
    rows: Sequence[Sequence[Any]]
    header: Sequence[str] | None = None


@dataclass(frozen=True)
class Description:
    """What a mechanism says of itself, beside what is said of every mechanism."""

    plan: tuple[Fact, ...] = ()
    """Lines of `labeldp plan`."""
    release: tuple[Fact, ...] = ()
    """Lines of `labeldp release`: what hides the labels."""
    summary: tuple[str, ...] = ()
    """The same in a few words, for `labeldp verify`."""

    def __add__(self, other: Description) -> Description:
        return Description(
            self.plan + other.plan, self.release + other.release, self.summary + other.summary
        )


@dataclass(frozen=True)
class Account:
    """What `labeldp account` can be asked about a mechanism, from public quantities alone."""

    options: type[Any]
    """A frozen dataclass; fields as in `cli/derived.py`."""
    answer: Callable[..., Document]
    show: Callable[[Document], Iterator[Panel]]


@dataclass(frozen=True)
class Inspection:
    """What `labeldp inspect` says of a mechanism: from raw labels, for the curator alone."""

    answer: Callable[[DesignSummary, float, float, float], Document]
    """(survey, residual sum of squares, ε, δ) ↦ names and values of the answer."""
    show: Callable[[Document], Iterator[Panel]]


@dataclass(frozen=True)
class Mechanism:
    """One way to publish: how it is asked for, planned, run, read, checked and told."""

    name: str
    """As on the command line."""
    title: str
    """One line."""
    draft: Callable[[Request[Any], Source, Engine], Plan]
    """What to publish and what it promises, from features and public facts alone."""
    run: Callable[[Plan, Source, Engine, Randomness], PendingRelease]
    """Read the labels once and draw; nothing of the claim can change."""
    read_claim: Callable[[Document], Claim]
    """The claim of a plan or certificate; KeyError, TypeError or ValueError if it is not one."""
    check: Callable[[Release], Iterator[str]]
    """Where the published numbers contradict the claim."""
    check_features: Callable[[Release, Source, Engine], Iterator[str]]
    """Where a table's features contradict the certificate."""
    describe: Callable[[Document], Description]
    """What people read of a plan or certificate."""
    untested: Callable[[Release], Iterator[str]] | None = None
    """What `check` cannot see in a release that passes it."""
    options: type[Any] = Options
    """A frozen dataclass: what may be asked of a plan; see `options.py`."""
    accountants: tuple[str, ...] = ("exact",)
    persons: bool = False
    """Whether a source with persons is priced for all rows of a person together; else refused."""
    single_rows: str = "it is priced for the label of one row"
    """Why not."""
    pure: bool = False
    """Whether it can be asked for δ = 0."""
    sections: Mapping[str, Document] = field(default_factory=dict)
    """JSON schemas of the parts of a certificate that are this mechanism's, by their names."""
    files: Mapping[str, Layout] = field(default_factory=dict)
    """Tables beside the aggregates, each in NAME.parquet and with its digest in `digests.NAME`;
    `aggregates`, if these do not hold the design columns and the label."""
    parts: Mapping[str, Callable[[Document], Any]] = field(default_factory=dict)
    """What its plans hold beside what all plans do, by name: how each is read from JSON."""
    meaning: Callable[[Release], LabelModel] | None = None
    """What the labels of its releases are, for learners; None: nothing here can learn from them."""
    account: Account | None = None
    inspection: Inspection | None = None
    closed_form: bool = False
    """Whether its forecast is the law of the fit's error, so that `auto` may rest on it."""
    serves: tuple[str, ...] = (LINEAR,)
    """What its releases are for: linear models, or any model."""
    row_noise: Callable[[int, float, float], float] | None = None
    """(most rows of a person, ε, δ) ↦ the deviation of the noise on a row's own label, of the label
    range; None: no row has a label of its own."""
    least_added: Callable[[Request[Any], Source, Engine], float] | None = None
    """No plan for the request adds less to a prediction's mean square; a draft costs more."""
    rehearse: Callable[[Plan, Source, np.random.Generator], SimulationInputs | None] | None = None
    """Weights and noise of a release as it might be, to forecast the error of a fit by; None where
    the plan's forecast is exact."""

    def allows(self, delta: float) -> bool:
        """Whether a guarantee with this δ can be asked for, as far as 0 is in question."""
        return self.pure or delta != 0


@dataclass(frozen=True)
class Demonstration:
    """A warning example: never private, written on explicit demand alone, without certificate."""

    options: tuple[str, ...]
    """Those options of mechanisms that it has too."""
    release: Callable[..., str]
    """(new directory, source, engine, encoding, mechanism, not_private, options) ↦ a warning."""
    account: Account
    """Its options are among those of mechanisms."""


def later(place: str) -> Any:
    """The function at "module:name", which is imported when it is first called."""
    module, _, name = place.partition(":")

    def call(*arguments: Any, **named: Any) -> Any:
        return attrgetter(name)(import_module(module))(*arguments, **named)

    call.__qualname__ = place
    return call


def of_folder(package: str) -> Callable[[str], Any]:
    """`later` for what stands in a mechanism's own folder, whose front page has this name."""
    return lambda place: later(f"{package}.{place}")


def number(value: float | None, digits: int = 4) -> str:
    """A number for people: thousands separated, few digits."""
    if value is None:
        return "–"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.{digits}g}" if abs(value) < 1e5 else f"{value:,.0f}"


def describe_floor(document: dict[str, Any]) -> Description:
    """The residual floor of a plan, or of a certificate."""
    floor, rows = document["floor"], document["bag_size"]
    needed = number(floor["needed"] / rows)
    added = floor.get("added_variance", 0.0) / rows
    text = f"noise of variance {number(added)} per row added" if added else "no noise needed"
    return Description(
        plan=(("floor", f"{floor['mode']}: residual plus noise ≥ {needed} per row"),),
        release=(("floor", f"{floor['mode']}: {text}"),),
        summary=(f"floor {floor['mode']}",),
    )


def describe_person(document: dict[str, Any]) -> Description:
    """Whose labels are covered, where that is a person's."""
    person = document.get("person")
    if person is None:
        return Description()
    rows = f"all rows of a person together, at most {number(person['rows'])}"
    facts = (("protects", f"{rows} (ids in column {person['column']!r})"),)
    return Description(plan=facts, release=facts, summary=(rows,))


def describe_draw(document: dict[str, Any]) -> Description:
    """The bags that were drawn, and what the guarantee is about."""
    draw = document["draw"]
    chance = f"a row is in a bag with probability {draw['chance']:.3g}"
    return Description(
        plan=(("guarantee", f"{draw['guarantee']} ({chance})"),),
        release=(("holds", draw["holds"]),),
        summary=(draw["guarantee"],),
    )
