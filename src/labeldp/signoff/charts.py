"""Charts as inline SVG, written by hand: no script, no address, colours of the page around them.

Shapes differ as well as colours, so that a chart can be read in black and white; each has a title
and a description for those who cannot see it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from html import escape

WIDTH, HEIGHT = 520, 210
LEFT, RIGHT, TOP, BOTTOM = 74, 16, 14, 44


def curve_chart(points: Sequence[tuple[float, float]], claim: tuple[float, float]) -> str:
    """δ over ε, δ in powers of ten; the floor is called 0 where the line comes to lie on it."""
    shown = [(e, d) for e, d in points if d > 0.0]
    ends = len(shown) < len(points)
    lowest = math.floor(min([math.log10(d) for _, d in shown], default=-6.0))
    least = max(-12, min(-1, lowest))
    low = float(least - ends)
    across = _Scale(0.0, max(e for e, _ in points), LEFT, WIDTH - RIGHT)
    down = _Scale(0.0, low, TOP, HEIGHT - BOTTOM)

    def place(e: float, d: float) -> str:
        return f"{across(e):.1f},{down(max(low, math.log10(d)) if d > 0 else low):.1f}"

    line = " ".join(place(e, d) for e, d in points)
    x, y = place(*claim).split(",")
    powers = range(0, 1 - least, max(1, round(-low / 5)))
    parts = [
        *_rules([(down(-k), _power(k)) for k in powers]),
        *_rules([(down(low), "0")] * ends),
        *_ticks([(across(e), f"{e:g}") for e in _round_numbers(across.high)]),
        f'<polyline class="line" points="{line}"/>',
        f'<circle class="mark" cx="{x}" cy="{y}" r="5"/>',
        _text(float(x) + 9, float(y) - 8, f"claimed: ε = {claim[0]:g}", "start"),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, "ε", "middle"),
        _text(14, TOP + 6, "δ", "start"),
    ]
    told = f"δ falls from {points[0][1]:.2g} at ε = 0 to {claim[1]:.2g} at the claimed ε."
    return _svg("Privacy curve", told, parts, HEIGHT)


def belief_chart(beliefs: Sequence[tuple[float, float, float]]) -> str:
    """For each prior belief, between what it lies afterwards; all in probabilities."""
    height = TOP + 30 * len(beliefs) + BOTTOM
    across = _Scale(0.0, 1.0, LEFT, WIDTH - RIGHT)
    parts = list(_ticks([(across(k / 4), f"{k * 25}%") for k in range(5)], height))
    for place, (before, low, high) in enumerate(beliefs):
        y = TOP + 30 * place + 14
        parts += [
            f'<line class="span" x1="{across(low):.1f}" x2="{across(high):.1f}" '
            f'y1="{y}" y2="{y}"/>',
            f'<circle class="mark" cx="{across(before):.1f}" cy="{y}" r="5"/>',
            _text(LEFT - 10, y + 4, f"{before:.0%}", "end"),
        ]
    parts.append(_text((LEFT + WIDTH - RIGHT) / 2, height - 6, "belief afterwards", "middle"))
    told = "; ".join(f"from {b:.0%} to between {lo:.1%} and {hi:.1%}" for b, lo, hi in beliefs)
    return _svg("What an attacker may come to believe", told, parts, height)


class _Scale:
    """From numbers to places."""

    def __init__(self, low: float, high: float, start: float, end: float) -> None:
        self.low, self.high, self._start, self._end = low, high, start, end

    def __call__(self, value: float) -> float:
        share = (value - self.low) / ((self.high - self.low) or 1.0)
        return self._start + share * (self._end - self._start)


def _rules(places: Sequence[tuple[float, str]]) -> Iterator[str]:
    for y, label in places:
        yield f'<line class="rule" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield _text(LEFT - 8, y + 4, label, "end")


def _ticks(places: Sequence[tuple[float, str]], height: float = HEIGHT) -> Iterator[str]:
    end = height - BOTTOM
    for x, label in places:
        yield f'<line class="rule" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{end + 4}"/>'
        yield _text(x, end + 18, label, "middle")


def _round_numbers(high: float) -> list[float]:
    """Up to five of them, from 0."""
    if high <= 0:
        return [0.0]
    unit = 10.0 ** math.floor(math.log10(high))
    step = next(unit * k for k in (0.2, 0.5, 1, 2) if high / (unit * k) <= 5)
    return [step * k for k in range(int(high / step + 1e-9) + 1)]


def _power(exponent: int) -> str:
    return "1" if exponent == 0 else f"1e−{exponent}"


def _text(x: float, y: float, text: str, anchor: str) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(text)}</text>'


def _svg(title: str, told: str, parts: Sequence[str], height: float) -> str:
    return (
        f'<svg role="img" viewBox="0 0 {WIDTH} {height}" aria-label="{escape(f"{title}. {told}")}">'
        f"{''.join(parts)}</svg>"
    )
