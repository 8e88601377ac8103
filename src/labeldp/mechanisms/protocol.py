"""What a mechanism declares of itself: all that the rest of the package knows of it.

`plan`, the command line and its help, `labeldp account`, the certificate's schema, `verify` and
`inspect` are derived from this; nothing else names a mechanism. A declaration is quick to import:
what it refers to with `later` is imported when it is first called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

from labeldp.mechanisms.options import Options
from labeldp.mechanisms.words import Shown, Words

if TYPE_CHECKING:
    import numpy as np

    from labeldp._random import Randomness
    from labeldp.engines import Engine
    from labeldp.mechanisms.bags import Rehearsal
    from labeldp.mechanisms.options import Request
    from labeldp.mechanisms.plan import Plan
    from labeldp.mechanisms.survey import Survey
    from labeldp.release import Claim, Drawing, Release
    from labeldp.source import Source

Document = dict[str, Any]
"""A plan, a certificate or an answer as JSON."""


@dataclass(frozen=True)
class Account:
    """What `labeldp account` can be asked about a mechanism, from public quantities alone."""

    options: type[Any]
    """A frozen dataclass; fields as in `cli/derived.py`."""
    answer: Callable[..., Document]
    show: Callable[[Document], Iterator[Shown]]


@dataclass(frozen=True)
class Inspection:
    """What `labeldp inspect` says of a mechanism: from raw labels, for the curator alone."""

    answer: Callable[[Survey, float, float, float], Document]
    """(survey, residual sum of squares, ε, δ) ↦ names and values of the answer."""
    show: Callable[[Document], Iterator[Shown]]


@dataclass(frozen=True)
class Mechanism:
    """One way to publish: how it is asked for, planned, run, read, checked and told."""

    name: str
    """As on the command line."""
    title: str
    """One line."""
    draft: Callable[[Request[Any], Source, Engine], Plan]
    """What to publish and what it promises, from features and public facts alone."""
    run: Callable[[Plan, Source, Engine, Randomness], Drawing]
    """Read the labels once and draw; nothing of the claim can change."""
    read_claim: Callable[[Document], Claim]
    """The claim of a plan or certificate; KeyError, TypeError or ValueError if it is not one."""
    check: Callable[[Release], Iterator[str]]
    """Where the published numbers contradict the claim."""
    check_features: Callable[[Release, Source, Engine], Iterator[str]]
    """Where a table's features contradict the certificate."""
    words: Callable[[Document], Words]
    """What people read of a plan or certificate."""
    options: type[Any] = Options
    """A frozen dataclass: what may be asked of a plan; see `options.py`."""
    accountants: tuple[str, ...] = ("exact",)
    sections: Mapping[str, Document] = field(default_factory=dict)
    """JSON schemas of the parts of a certificate that are this mechanism's, by their names."""
    account: Account | None = None
    inspection: Inspection | None = None
    rehearse: Callable[[Plan, Source, np.random.Generator], Rehearsal | None] | None = None
    """Weights and noise of a release as it might be, to forecast the error of a fit by; None where
    the plan's forecast is exact."""


def later(place: str) -> Any:
    """The function at "module:name", which is imported when it is first called."""
    module, _, name = place.partition(":")

    def call(*arguments: Any) -> Any:
        return getattr(import_module(module), name)(*arguments)

    call.__qualname__ = place
    return call
