"""`audit`: try to break a mechanism's claim on a table's own public features (safety §6).

The labels are made up, so nothing here is private, and the table's own labels are not read. Two
neighbouring tables differ in the labels of the row, or the person, that moves most, by the whole
label range. They are released by `Plan.release` a few times with the same randomness (replay and
support), and then drawn from very often by the functions that a release calls after its pass (law
and attack). An audit that passes proves nothing: it has not found what it looked for.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from itertools import count
from typing import Any

import numpy as np

from labeldp.data.source import Source, as_source
from labeldp.display import ReprMixin, format_budget
from labeldp.errors import InputError, positive
from labeldp.mechanisms.options import AUTO, DELTA, EPSILON
from labeldp.mechanisms.registry import mechanism_named
from labeldp.passes.engine import Engine, LocalEngine
from labeldp.planning import TABLE_OPTIONS, Plan, plan
from labeldp.release.files import Release
from labeldp.sampling.streams import Randomness
from labeldp.spark.engine import engine_for
from labeldp_paper.audit.audit_spec import AuditSpec, KnownDataset, NoiseComponent
from labeldp_paper.audit.evidence import ALARM, CONFIDENCE, Evidence, lower_bound
from labeldp_paper.audit.neighbours import (
    ENDS,
    FLAT,
    Worst,
    imagined,
    made_up,
    relabelled,
    with_labels,
    worst_rows,
)
from labeldp_paper.audit.specs import AUDIT_SPECS

SECONDS = 30.0
"""For the draws; whole releases take as long as they take."""
NUMBERS, RELEASES = 400_000, 20_000
"""Of each table, where there is time for so many."""
SIDES = ("low", "high")
"""Two neighbours, by the labels of the worst rows."""
_WHOLE = 2
"""Releases of each table by the whole road."""
_AT_ONCE = 1 << 16
"""Numbers of a draw."""


@dataclass(frozen=True)
class Check:
    """One thing that was tried."""

    name: str
    passed: bool
    found: str
    """In words."""
    labels: str = ""
    """Of the neighbours: "flat" or "ends"."""
    table: str = ""
    """Which of the two was drawn from: "low" or "high", by the labels of the worst rows."""
    p: float | None = None


@dataclass(frozen=True, repr=False)
class Audit(ReprMixin):
    """What was tried, and whether anything broke the claim."""

    mechanism: str
    epsilon: float
    """As it is certified."""
    delta: float
    lower_bound: float
    """ε is at least this, by the best attack that was found."""
    releases: int
    """Simulated, of all tables together."""
    numbers: int
    """Tested."""
    notices: float
    """The relative error of the noise's scale that this audit would have noticed."""
    alarm: float
    """A smaller p-value of a test is a failure."""
    worst: dict[str, float]
    """How far the worst rows move what is shown, and what is priced."""
    seconds: float
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    @property
    def least_p(self) -> float:
        """The smallest p-value of all tests."""
        return min(check.p for check in self.checks if check.p is not None)

    @property
    def failures(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.passed)

    def to_json(self) -> dict[str, Any]:
        """As plain values."""
        fields = {name: value for name, value in asdict(self).items() if name != "checks"}
        whole = {"passed": self.passed, **fields, "least_p": self.least_p}
        return {**whole, "checks": [asdict(check) for check in self.checks]}

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        verdict = "passed" if self.passed else "FAILED"
        return (
            f"Audit of {self.mechanism}, {format_budget(self.epsilon, self.delta)}: {verdict}",
            (
                ("lower bound of ε", f"{self.lower_bound:.3g}"),
                ("smallest p-value", f"{self.least_p:.2g} of {len(self.checks)} checks"),
                *(("FAILED", f"{check.name}: {check.found}") for check in self.failures),
            ),
        )


def audit(
    source: Any,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    *,
    label: str | None = None,
    label_range: tuple[float, float] | None = None,
    seconds: float = SECONDS,
    seed: int = 0,
    engine: Engine | None = None,
    **choices: Any,
) -> Audit:
    """Try to break the claim of a plan on a table's own features, with labels that are made up.

    Parameters
    ----------
    source
        what `scan` made, or a path or a frame, with `label` and `label_range` and any other keyword
        of `scan`. Its labels are not read, and no row is dropped for want of one.
    epsilon, delta
        the budget to plan for.
    label
        the private column, where `source` is a path or a frame.
    label_range
        (low, high), public, likewise.
    seconds
        for simulated draws; a few whole releases come before them.
    seed
        of the made-up labels and of every draw: the same seed and enough time give the same answer.
    engine
        where data are read; local.
    choices
        other keywords of `plan`, such as `mechanism`.

    Returns
    -------
    Audit
        `passed`, the certified ε and a lower bound of it, and all `checks` with their p-values.

    Raises
    ------
    InputError
        an argument is wrong, or nothing says how the mechanism is audited.

    Examples
    --------
    >>> from labeldp_paper.audit.auditing import audit
    >>> table = {"age": list(range(20, 70)) * 20, "income": [30.0, 50.0] * 500}
    >>> asked = {"label": "income", "label_range": (0, 100), "mechanism": "noisy-rows"}
    >>> audit(table, epsilon=1, seconds=1, **asked).passed
    True
    """
    positive(seconds=seconds)
    said = {name: choices.pop(name) for name in TABLE_OPTIONS if name in choices}
    table = as_source(source, label=label, label_range=label_range, **said)
    public = imagined(table, np.zeros(0))
    engine = engine or engine_for(public)
    if choices.get("mechanism", AUTO) != AUTO:
        trial_named(choices["mechanism"])
    made = plan(public, epsilon, delta, engine=engine, **{"force": True, **choices})
    return audited(made, public, engine, seconds=seconds, seed=seed)


def trial_named(mechanism: str) -> AuditSpec:
    """How a mechanism is audited; refused where it does not say so."""
    name = mechanism_named(mechanism).name  # an unknown one is refused
    if name not in AUDIT_SPECS:
        raise InputError(
            f"{mechanism} does not say how it is audited; those that do (`mechanism`): "
            f"{', '.join(AUDIT_SPECS)}"
        )
    return AUDIT_SPECS[name]


def trial_of(made: Plan) -> AuditSpec:
    """The same of a plan, some of which are refused."""
    spec = trial_named(made.claim.mechanism)
    problem = spec.refusal(made) if spec.refusal else None
    if problem:
        raise InputError(f"{made.claim.mechanism}: {problem}")
    return spec


def audited(made: Plan, source: Source, engine: Engine, *, seconds: float, seed: int) -> Audit:
    """The audit of a plan that was made of this source."""
    start, spec = time.monotonic(), trial_of(made)
    worst = worst_rows(made, spec, source)
    kinds = (FLAT, ENDS) if spec.any_labels is None or spec.any_labels(made) else (ENDS,)
    checks, bounds = [_worst(worst)], list[float]()
    evidence = list[Evidence]()
    # apart, so that how many are drawn in the time does not decide what is replayed
    replayed, seeds = count(seed << 32), count((seed << 32) + (1 << 31))
    for kind in kinds:
        pair = Pair(made, spec, source, worst, kind, seed, engine)
        checks += pair.whole(replayed)
        pair.draw(seconds / len(kinds), seeds)
        checks += pair.laws()
        bounds += pair.attacks(2 * len(kinds))
        evidence += pair.evidence.values()
    best, claim = max(bounds), made.claim
    checks.append(_attack(best, claim.epsilon))
    return Audit(
        claim.mechanism,
        claim.epsilon,
        claim.delta,
        best,
        sum(each.releases for each in evidence),
        sum(each.numbers for each in evidence),
        max(min(record.notices for record in each.records.values()) for each in evidence),
        ALARM,
        {"rows": len(worst.rows), "moves": worst.moves, "priced": float(worst.most)},
        time.monotonic() - start,
        tuple(checks),
    )


def _worst(worst: Worst) -> Check:
    found = f"moves {worst.moves:.9g}, {worst.most:.9g} is priced"
    return Check("worst neighbour", worst.priced, found)


def _attack(best: float, epsilon: float) -> Check:
    found = f"ε ≥ {best:.4g} with {CONFIDENCE:.1%} confidence, {epsilon:g} is certified"
    return Check("attack", best <= epsilon, found)


class Pair:
    """Two neighbours: the worst rows' labels at the low end, and at the high end."""

    def __init__(
        self,
        made: Plan,
        spec: AuditSpec,
        source: Source,
        worst: Worst,
        kind: str,
        seed: int,
        engine: Engine,
    ) -> None:
        self._plan, self._spec, self._kind = made, spec, kind
        ends = (made.labels.low, made.labels.high)
        labels = made_up(kind, made.features.rows, ends, seed)
        self._engines = {name: LocalEngine(engine.threads or 0, engine.progress) for name in SIDES}
        self._sources = {
            name: relabelled(source, with_labels(labels, worst.rows, end))
            for name, end in zip(SIDES, ends, strict=True)
        }
        known: dict[str, KnownDataset] = {
            name: spec.know(made, self._sources[name], self._engines[name], worst.rows)
            for name in SIDES
        }
        low, high = SIDES
        rng = np.random.default_rng([seed, len(kind)])
        self.evidence = {
            low: Evidence(known[low], known[high], rng),
            high: Evidence(known[high], known[low], rng),
        }

    def whole(self, seeds: Iterator[int]) -> Iterator[Check]:
        """A few releases of both tables by the whole road, with the same randomness."""
        public, same, steps = True, True, True
        for seed in [next(seeds) for _ in range(_WHOLE)]:
            releases = [self._release(name, seed) for name in SIDES]
            low, high = (self._noted(*each) for each in zip(SIDES, releases, strict=True))
            public &= _public(releases[0], self._spec) == _public(releases[1], self._spec)
            same &= all(_same_noise(*each) for each in zip(low, high, strict=True))
            steps &= all(_on_grid(part) for part in (*low, *high))
        kind = self._kind
        yield Check("public part", public, "the same of both tables, but for labels", kind)
        yield Check("replay", same, "the same randomness is the same noise about both", kind)
        yield Check("support", steps, "all numbers are whole steps of one public grid", kind)

    def _release(self, name: str, seed: int) -> Release:
        randomness = Randomness.experiment(seed)
        source, engine = self._sources[name], self._engines[name]
        return self._plan.release(source, engine=engine, randomness=randomness)

    def _noted(self, name: str, release: Release) -> tuple[NoiseComponent, ...]:
        evidence = self.evidence[name]
        shown = evidence.mine.read(release)
        evidence.add(shown)
        return evidence.mine.parts(shown)

    def draw(self, seconds: float, seeds: Iterator[int]) -> None:
        """Draw from both tables until there is enough, or the time is over."""
        for evidence in self.evidence.values():
            _fill(evidence, seconds / 2, seeds)

    def laws(self) -> Iterator[Check]:
        """The exact law of every part, of both tables, and whether the claim prices it."""
        for name, evidence in self.evidence.items():
            about = self._kind, name
            for part, record in evidence.records.items():
                for test, p in record.p_values():
                    yield Check(f"law of {part}: {test}", p >= ALARM, f"p = {p:.3g}", *about, p)
                found = f"means {record.moved:.9g} apart, scale {record.narrowest:.9g}"
                yield Check(f"price of {part}", record.priced, found, *about)

    def attacks(self, attacks: int) -> Iterator[float]:
        """In either direction."""
        low, high = (self.evidence[name].losses for name in SIDES)
        yield lower_bound(low, -high, self._plan.claim.delta, attacks)
        yield lower_bound(high, -low, self._plan.claim.delta, attacks)


def _fill(evidence: Evidence, seconds: float, seeds: Iterator[int]) -> None:
    start, releases, once, numbers = time.monotonic(), 0, 1, 0
    while evidence.numbers < NUMBERS or evidence.releases < RELEASES:
        shown = evidence.mine.draw(once, lambda: Randomness.experiment(next(seeds)))
        before = evidence.numbers
        evidence.add(shown)
        numbers, releases = numbers + evidence.numbers - before, releases + once
        spent = time.monotonic() - start
        left = int((seconds - spent) * releases / spent)
        if left < 1:
            return
        once = max(1, min(2 * once, left, _AT_ONCE * releases // numbers))


def _public(release: Release, spec: AuditSpec) -> tuple[Any, ...]:
    """All but what labels and noise make; the label is the last column."""
    hidden = {"seal", "digests", *spec.private}
    certificate = {k: v for k, v in release.certificate.items() if k not in hidden}
    return certificate, release.features, release.table.select(release.table.column_names[:-1])


def _on_grid(part: NoiseComponent) -> bool:
    return not np.any(np.mod(np.ldexp(part.shown, -part.grid), 1.0))


def _same_noise(one: NoiseComponent, two: NoiseComponent) -> bool:
    """Each of the numbers is rounded by half a step at most."""
    apart = np.abs(one.noise - two.noise) * np.minimum(one.scale, two.scale)
    return one.grid == two.grid and bool(np.all(np.ldexp(apart, -one.grid) <= 1.001))
