"""docs/peers.md from outcomes: a pure function, every number in it from a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from experiments.figures import Figure, Outcome

DEFAULT = "**labeldp, default**"
SHRUNKEN = "least noisy of the first three, shrunk and clipped as ours"
LARGE = 50_000
AIM = 1.0
"""The ε of the aim."""
REFUSED = "†"


class Loss(NamedTuple):
    """A peer that does better than the default, and by how many percent each is above the fit."""

    table: str
    epsilon: str
    peer: str
    theirs: str
    ours: str


PUBLISHED = (
    ("RPWithPrior, network, pure ε, ε not stated", ".585"),
    ("optimal unbiased randomiser, network, pure ε, ε not stated", ".611"),
    ("RPWithPrior, its notebook at ε = .05", "1.41–1.68"),
)
"""Test mean squared errors that others report for California housing."""

INTRODUCTION = """\
# Peers

labeldp beside what one could do instead under the same guarantee: features are public, one label
changes, (ε, δ) with δ = 1e-6. `make peers` makes this page (the tables themselves are not in this
repository). No number in it is typed by hand, but for the published figures at its end. It reads
raw labels: the figures are for comparison, not private.

How it was made:

- All columns, default settings. Label ranges are round numbers, and labels beyond them are clipped,
  for everyone. Those of the flights were settled in earlier work on the same tables; nothing else
  was. [experiments/tables.py](../experiments/tables.py) has all that was chosen.
- Everyone gets the same design matrix, that of labeldp's default encoding.
- A figure is the squared error over all rows, above that of plain least squares with all labels *on
  the raw features* and in percent of it: 0 is as good as without privacy, below 0 is better. "Full
  labels, same design" is what the encoding alone changes.
- "labeldp, default" is `plan`, `release` and `LinearRegressor` without a choice: the mean of
  {repeats} releases, ± the deviation of one. The lines below it are plain least squares on what
  each mechanism publishes, neither shrunk nor clipped.
- Figures without ± are exact expectations of plain least squares; the others are means of {repeats}
  repetitions, with predictions clipped to the range.
- Peers are at their best known setting, with [formulas and code](../experiments/alternatives.py).
  Isotropic output perturbation takes the better of Gaussian and K-norm noise, and is also the limit
  of conditioned private gradient descent. AdaSSP spends nothing on XᵀX, which is public;
  its ridge draws predictions to 0, or to the middle of the range if labels count from there.
  RR-on-bins spends half of ε on its prior. Anyone may shrink and clip: so of the three peers
  whose noise is the same in every direction, the one with least is shown again with labeldp's own
  shrinkage.
- **Bold**: a peer that does better than labeldp's default.
- {refused} after a figure of the default: there `plan` forecasts no gain over the mean of the
  labels and refuses unless it is told to go on (`force=True`), as it was here.
"""


def page(outcomes: Sequence[Outcome], housing: Outcome) -> str:
    """The whole page."""
    repeats = len(outcomes[0].figure(DEFAULT, AIM).values)
    lines = [INTRODUCTION.format(repeats=repeats, refused=REFUSED)]
    lines += _losses([loss for outcome in outcomes for loss in losses(outcome)], outcomes)
    lines += _aim([outcome for outcome in outcomes if outcome.rows >= LARGE])
    for outcome in outcomes:
        lines += _table(outcome)
    lines += _housing(housing)
    return "\n".join(lines)


def losses(outcome: Outcome) -> list[Loss]:
    """Where a peer does better than the default, by means."""
    return [
        Loss(
            outcome.name,
            f"{figure.epsilon:g}",
            figure.way,
            _cell(outcome, figure),
            _cell(outcome, outcome.figure(DEFAULT, figure.epsilon)),
        )
        for figure in outcome.figures
        if _wins(outcome, figure)
    ]


def _wins(outcome: Outcome, figure: Figure) -> bool:
    return not figure.ours and figure.mean < outcome.figure(DEFAULT, figure.epsilon).mean


def _losses(found: Sequence[Loss], outcomes: Sequence[Outcome]) -> list[str]:
    cells = sum(not figure.ours for outcome in outcomes for figure in outcome.figures)
    lines = ["## Where labeldp loses", ""]
    if not found:
        return [*lines, f"Nowhere on this page: in none of {cells} cells is a peer better.", ""]
    header = ("table", "ε", "peer", "peer, %", "labeldp, %")
    told = f"In {len(found)} of {cells} cells a peer is better than the default:"
    return [*lines, told, "", *markdown(header, found)]


def _aim(large: Sequence[Outcome]) -> list[str]:
    """Whether the private fit is no worse than the plain one with all labels."""
    rows = []
    for outcome in large:
        figure = outcome.figure(DEFAULT, AIM)
        excess = outcome.excess(figure.mean)
        reached = "yes" if excess <= 0 else "no"
        encoded = percent(outcome.excess(outcome.encoded))
        rows.append((outcome.name, f"{outcome.rows:,}", encoded, _cell(outcome, figure), reached))
    return [
        "## No worse than without privacy?",
        "",
        f"The aim: on tables of {LARGE:,} rows and more the default private fit at ε = {AIM:g}",
        "predicts no worse than plain least squares with all labels on the raw features.",
        "",
        *markdown(
            ("table", "rows", "full labels, same design, %", "labeldp, %", "no worse"),
            rows,
        ),
    ]


def _table(outcome: Outcome) -> list[str]:
    """One table: ways down, budgets across."""
    facts = (
        f"{outcome.rows:,} rows, {outcome.columns} design columns, largest leverage "
        f"{outcome.largest_leverage:.2g}; label from {outcome.label_range}; with all labels "
        f"R² = {outcome.explained:.3f}. {_chosen(outcome)}"
    )
    same = percent(outcome.excess(outcome.encoded))
    rows = [("full labels, same design", *[same] * len(outcome.epsilons))]
    for way in outcome.ways:
        figures = [outcome.figure(way, epsilon) for epsilon in outcome.epsilons]
        rows.append((way, *(_marked(outcome, figure) for figure in figures)))
    header = ("excess, %", *(f"ε = {epsilon:g}" for epsilon in outcome.epsilons))
    return [
        f"## {outcome.name[0].upper()}{outcome.name[1:]}",
        "",
        facts,
        "",
        *markdown(header, rows),
    ]


def _chosen(outcome: Outcome) -> str:
    names = dict.fromkeys(outcome.chosen)
    if len(names) == 1:
        return f"Chosen by default: {outcome.chosen[0]}."
    each = (
        f"{name} at ε = {e:g}" for name, e in zip(outcome.chosen, outcome.epsilons, strict=True)
    )
    return f"Chosen by default: {', '.join(each)}."


def _marked(outcome: Outcome, figure: Figure) -> str:
    text = _cell(outcome, figure)
    return f"**{text}**" if _wins(outcome, figure) else text


def _cell(outcome: Outcome, figure: Figure) -> str:
    text = percent(outcome.excess(figure.mean))
    if figure.spread is not None:
        text = f"{text} ± {percent(figure.spread / outcome.raw)}"
    return f"{text} {REFUSED}" if _refused(outcome, figure) else text


def _refused(outcome: Outcome, figure: Figure) -> bool:
    return figure.way == DEFAULT and figure.epsilon in outcome.refused


def _housing(outcome: Outcome) -> list[str]:
    repeats = len(outcome.figures[0].values)
    rows = [
        (way, *(_mse(outcome, outcome.figure(way, epsilon)) for epsilon in outcome.epsilons))
        for way in outcome.ways
    ]
    header = ("test MSE", *(f"ε = {epsilon:g}" for epsilon in outcome.epsilons))
    return [
        "## California housing as published",
        "",
        "Mean squared error on a fifth of the rows, kept aside; labels in 100,000 dollars,",
        f"the usual eight features; mean of {repeats} splits with one release each. Predictions",
        f"are clipped. Least squares with all labels has {outcome.raw:.3f} on raw features, and",
        f"{outcome.encoded:.3f} on the design that all ways here are given.",
        "",
        *markdown(header, rows),
        "What others report, with networks:",
        "",
        *markdown(("published", "test MSE"), PUBLISHED),
    ]


def _mse(outcome: Outcome, figure: Figure) -> str:
    text = f"{figure.mean:.3f} ± {figure.spread or 0.0:.3f}"
    if _refused(outcome, figure):
        text = f"{text} {REFUSED}"
    return f"**{text}**" if _wins(outcome, figure) else text


def percent(share: float) -> str:
    """In percent, with three digits that matter."""
    value = 100 * share
    text = f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
    if "e" in text:
        text = f"{value:.1e}".replace("e-0", "e-")
    return text.replace("-", "−")


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table, and the empty line after it."""
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return [*lines, *("| " + " | ".join(row) + " |" for row in rows), ""]
