"""What people read: values that show a few facts, and the words of plans and releases."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from html import escape
from typing import Any


class ReprMixin(ABC):
    """Give a class a readable repr, also as HTML; dataclasses that use it need `repr=False`.

    Facts must be public: no label, and nothing computed from labels except what was published.
    """

    @abstractmethod
    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        """Return the title and the pairs of name and value to show."""

    def __repr__(self) -> str:
        title, facts = self._repr_facts()
        pairs = list(facts)
        width = max((len(name) for name, _ in pairs), default=0)
        lines = [f"  {name:<{width}}  {value}".rstrip() for name, value in pairs]
        return "\n".join([title, *lines])

    def _repr_html_(self) -> str:
        """Return the same facts as a table for notebooks."""
        title, facts = self._repr_facts()
        return html_table(title, facts)


def html_table(title: str, rows: Iterable[Sequence[str]], header: Sequence[str] = ()) -> str:
    """Return an HTML table; texts may come from anyone's file, so all are escaped."""
    style = f"style='text-align:{'right' if header else 'left'}'"

    def line(cells: Sequence[str], tag: str) -> str:
        return "".join(f"<{tag} {style}>{escape(cell)}</{tag}>" for cell in cells)

    lines = [line(header, "th")] if header else []
    body = "".join(f"<tr>{each}</tr>" for each in (*lines, *(line(row, "td") for row in rows)))
    return f"<table><caption>{escape(title)}</caption>{body}</table>"


class Private:
    """Holds what depends on labels: prints nothing of it, and refuses to be pickled."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(private)"

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(f"{type(self).__name__} is private and is not written anywhere")


def format_budget(epsilon: float, delta: float) -> str:
    """Return ε and δ as text."""
    return f"ε = {epsilon:g}, δ = {delta:g}"


# --- plans and releases ---


Document = dict[str, Any]
"""A plan, a certificate or an answer as JSON."""
Facts = tuple[tuple[str, str], ...]
"""Lines of `labeldp plan`, `labeldp release` and reports: a name, and words."""


def number(value: float | None, digits: int = 4) -> str:
    """Format a number for people: thousands separated, few digits."""
    if value is None:
        return "–"
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:,.{digits}g}" if abs(value) < 1e5 else f"{value:,.0f}"


def headline(document: Document) -> Facts:
    """Return the guarantee and the error of a plan or a certificate, each as one sentence."""
    person, labels = document.get("person"), document["labels"]
    whose = "one row's label"
    if person is not None:
        rows = f"at most {number(person['rows'])} rows of an id in column {person['column']!r}"
        whose = f"all labels of one person ({rows})"
    low, high = document["label_range"]
    what = f"predictions of {labels['column'] or 'the label'} ({low:g} to {high:g})"
    if "classes" in labels:
        what = f"predicted probabilities of {labels['classes'][1]!r}"
    rms, verb = document["utility"]["added_rms"], "are" if "software" in document else "will be"
    error = f"{what} {verb} off by {number(rms, 3)} because of privacy (root mean square)"
    if rms is None:
        error = f"how far {what} {verb} off because of privacy is not known in advance"
    guarantee = format_budget(document["epsilon"], document["delta"])
    guarantee += f" for {whose}, by {document['mechanism']}"
    if (document["draw"] or {}).get("guarantee") == "over-draw":
        guarantee += ", while the draw of the bags is secret"
    return ("guarantee", guarantee), ("error", error)


def describe_floor(document: Document) -> Facts:
    """Describe the residual floor of a plan or a certificate."""
    floor, rows = document["floor"], document["bag_size"]
    words = f"{floor['mode']}: residual plus noise ≥ {number(floor['needed'] / rows)} per row"
    if "added_variance" in floor:  # a release
        words += f", noise of variance {number(floor['added_variance'] / rows)} per row added"
    return (("floor", words),)


def describe_draw(document: Document) -> Facts:
    """Describe the bags that were drawn, and what the guarantee is about."""
    draw = document["draw"]
    chance = f"a row is in a bag with probability {draw['chance']:.3g}"
    return (("guarantee", f"{draw['guarantee']} ({chance}): {draw['holds']}"),)


ROWS_LEFT_OUT = "rows without a label"
"""How a plan's note on them begins."""


def left_out_words(left_out: int, rows: int) -> str:
    """Return how many rows are left out, of those and the `rows` that have a label, in words."""
    total = left_out + rows
    share = left_out / total
    return f"{left_out:,} of {total:,} ({share:.1%}) left out; who lacks a label becomes visible"
