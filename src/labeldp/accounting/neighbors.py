"""The largest δ(ε) over every neighbour a sketch can meet (theory 3b–3e), certified by cells.

**One neighbour** (3b). For y' = y + t·e_i put τ = t/σ, c = r_i/σ, h = h_i. The covariances of a
bag under D' and D have the generalised eigenvalues 1, 1+u and 1−v with u − v = 2τc + τ² and
uv = τ²h. The privacy loss of m bags is L = κ + αG1 − βG2 with G1, G2 iid Gamma(m/2),
α = v/(1−v), β = u/(1+u), κ = (m/2)(ln(1+u) + ln(1−v)).

**Domination** (3c). δ grows with u and with v. A cell of neighbours is therefore bounded by its
largest u and largest v. The family is cut into cells, and a cell whose bound exceeds the best
value found at a point is cut again until the two agree: branch and bound, in one parameter, or
in one for each sketch where several are composed.

**Features unknown.** Let r be the residual of y and e_i = Pe_i + c·r/σ + w, with w
orthogonal to the features and to r. Publishing w as one more feature column changes neither
σ, c nor τ (w is orthogonal to r), raises the leverage h to 1 − c², and dropping the column
again is post-processing. So h = 1 − c² may be assumed. Then
(1+u)(1−v) = 1 + 2τc + τ² − τ²(1−c²) = (1+τc)² and (1+u) + (1−v) = 2 + 2τc + τ², so that
√(1+u) − √(1−v) = τ for τ < 1: the family is 1+u = (1+a)², 1−v = (1−b)², a + b = τ, a, b ≥ 0.
A smaller τ is dominated by enlarging a. A cell b ∈ [b1, b2] is bounded by a = τ − b1, b = b2.
In every case tried the sup is at b = τ: u = 0, v = 1 − (1−τ)².

**Features public.** u and v grow with h, so h = H; u grows with c and v falls with c, and
c ∈ [−C, C]. u grows with τ. v = τφ(2c+τ) with φ(w) = (√(w²+4h) − w)/2 has
dv/dτ = φ·(1 − τ/√((2c+τ)²+4h)), which is negative only for c < 0 beyond τ* = (c²+h)/|c|,
where v = c² + h. A cell [c1, c2] is bounded by u(c2, τ) and v(c1, min(τ, τ*)), and both by
the largest values with features unknown, u ≤ (1+τ)² − 1 and v ≤ 1 − (1−τ)².
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import product

import numpy as np
import numpy.typing as npt

from labeldp.accounting import contour
from labeldp.accounting.privacy_profile import NO_GUARANTEE, Bounds, DiscreteLoss
from labeldp.errors import at_least, positive

Reals = npt.NDArray[np.float64]

_LEVELS = 40  # halvings of the cell width towards either end: 1e-12 of the range
_AGREE = 1e-9  # relative gap between bound and attained value that ends the search
_NEGLIGIBLE = 1e-12  # of a δ that is added anyway: a smaller gap ends the search too
_ROUNDS = 60
_CELLS = 500  # cut in one round; beyond it the bound is what it is, still valid
_BOXES, _FEW_BOXES = 2000, 64  # the same for several sketches; fewer beside many points


def roots(
    tau: npt.ArrayLike, cosine: npt.ArrayLike, leverage: npt.ArrayLike
) -> tuple[Reals, Reals]:
    """u and v of theory 3b, without cancellation.

    They are (√(p²+4q) ± p)/2 with p = 2τc + τ², q = τ²h: the larger one is a sum of
    positive numbers, the smaller one is q over it.
    """
    tau, cosine, leverage = (np.asarray(x, float) for x in (tau, cosine, leverage))
    p = tau * (2.0 * cosine + tau)
    larger = 0.5 * (np.abs(p) + np.hypot(p, 2.0 * tau * np.sqrt(leverage)))
    q = tau * tau * leverage
    smaller = np.divide(q, larger, out=np.zeros_like(larger + q), where=larger > 0)
    return np.where(p >= 0, larger, smaller), np.where(p >= 0, smaller, larger)


def scales(u: Reals, v: Reals) -> tuple[Reals, Reals]:
    """α and β of the direction D→D'. The direction D'→D has α = u and β = v.

    (Exchanging D and D' makes 1+u' = 1/(1−v) and 1−v' = 1/(1+u).)
    """
    return v / (1.0 - v), u / (1.0 + u)


@dataclass(frozen=True)
class Chart:
    """A family in one parameter: `cells(x1, x2)` are u and v above all neighbours in [x1, x2]."""

    low: float
    high: float
    cells: Callable[[Reals, Reals], tuple[Reals, Reals]]


@dataclass(frozen=True)
class NeighborFamily:
    """Every neighbour of a sketch of `bags` rows that the public facts allow.

    tau: Δ/σ_lb, the largest change of a label over the smallest residual norm.
    leverage, cosine: the largest h_i and the largest |r_i|/σ_lb; 1 and 1 when unknown.
    inflation: u and v are enlarged by this fraction (room for rounding in the sampler).
    """

    bags: float  # whole, but in a search
    tau: float
    leverage: float = 1.0
    cosine: float = 1.0
    inflation: float = 0.0

    def __post_init__(self) -> None:
        positive(bags=self.bags, tau=self.tau)
        at_least(0.0, leverage=self.leverage, cosine=self.cosine, inflation=self.inflation)

    def delta(self, epsilon: float, gaussian: float = 0.0, *, certified: bool = True) -> Bounds:
        """Return the sup of δ(ε) over the family and both directions, composed with a μ-Gaussian.

        `upper` holds for every neighbour. `lower` is attained when the features are
        unknown; with public features by the pair (u, v) that the facts leave open. Without
        `certified` only the ends of the family are tried: never above `delta`, mostly equal.
        """
        at_least(0.0, epsilon=epsilon, gaussian=gaussian)
        return supremum((self,), epsilon, gaussian, certified=certified)

    def charts(self) -> list[Chart]:
        """Return one chart per way of bounding the family; the smallest answer counts."""
        charts = []
        if self.leverage < 1.0 or self.cosine < 1.0:
            edge = min(1.0, self.cosine)
            charts.append(Chart(-edge, edge, partial(_feature_cells, self.tau, self.leverage)))
        if self.tau < 1.0:
            charts.append(Chart(0.0, self.tau, partial(_worst_cells, self.tau)))
        return charts


def _worst_cells(tau: float, b1: Reals, b2: Reals) -> tuple[Reals, Reals]:
    """1+u = (1+τ−b1)², 1−v = (1−b2)²: features unknown."""
    a = tau - b1
    return a * (2.0 + a), b2 * (2.0 - b2)


def _feature_cells(tau: float, leverage: float, c1: Reals, c2: Reals) -> tuple[Reals, Reals]:
    """u(c2, τ) and v(c1, min(τ, τ*)) at the largest leverage the cell allows, both capped."""
    # h ≤ 1 − c², which is largest at the c of the cell that is nearest to 0
    nearest = np.where(c1 * c2 <= 0.0, 0.0, np.minimum(np.abs(c1), np.abs(c2)))
    h = np.minimum(leverage, 1.0 - nearest**2)
    with np.errstate(divide="ignore", over="ignore"):
        turn = np.where(c1 < 0.0, (c1 * c1 + h) / np.abs(c1), np.inf)
    u, _ = roots(tau, c2, h)
    _, v = roots(np.minimum(tau, turn), c1, h)
    cap_v = tau * (2.0 - tau) if tau < 1.0 else np.inf
    return np.minimum(u, tau * (2.0 + tau)), np.minimum(v, cap_v)


@lru_cache(maxsize=4096)  # plan, certificate and verification ask the same
def supremum(
    families: tuple[NeighborFamily, ...],
    epsilon: float,
    gaussian: float = 0.0,
    points: DiscreteLoss = ((0.0, 1.0),),
    slack: float = 0.0,
    *,
    certified: bool = True,
) -> Bounds:
    """The sup of δ(ε), any real ε, over all neighbours of several sketches, both directions.

    They are composed with a μ-Gaussian and with a bounded loss, whose values and probabilities
    are `points`. `slack` is what the caller adds to δ. Without `certified` only the ends of the
    families are tried.
    """
    ways = []
    for charts in product(*(family.charts() for family in families)):
        value = partial(_delta_of_boxes, families, charts, epsilon, gaussian, points)
        corners = np.array(list(product(*((chart.low, chart.high) for chart in charts)))).T
        ways.append((_largest(value(corners, corners, 0.0)), charts, value))
    best = NO_GUARANTEE
    for at_corners, charts, value in sorted(ways, key=lambda way: way[0].upper):
        if at_corners.upper < best.upper:
            # each box costs an integral for every point
            most = _CELLS if len(charts) == 1 else max(_FEW_BOXES, _BOXES // len(points))
            worst = _certify(charts, value, at_corners, most, slack) if certified else at_corners
            best = min(best, worst, key=lambda bounds: bounds.upper)
    return best


def _delta_of_boxes(
    families: Sequence[NeighborFamily],
    charts: Sequence[Chart],
    epsilon: float,
    gaussian: float,
    points: DiscreteLoss,
    left: Reals,
    right: Reals,
    enough: float,
) -> Reals:
    """δ of boxes in the worse direction, rows lower, estimate, upper; 1 where v reaches 1.

    Boxes are (families, boxes): a cell of each family. There D' rules D out, and nothing is
    promised. Where a quick upper bound is at most `enough`, that bound is all there is.
    """
    inside, sides = np.ones(left.shape[1], dtype=bool), []
    for family, chart, low, high in zip(families, charts, left, right, strict=True):
        u, v = (side * (1.0 + family.inflation) for side in chart.cells(low, high))
        # v = 1: a direction in which D has no variance left under D', which rules D out
        inside &= (v < 1.0 - 1e-15) & (u < 1e15)
        sides.append((family.bags, u, v))
    out = np.ones((3, len(inside)))
    if inside.any():
        factors = []
        for bags, u, v in sides:
            alpha, beta = scales(u[inside], v[inside])
            # both directions of the same neighbours side by side, D→D' before D'→D
            both = np.concatenate([alpha, u[inside]]), np.concatenate([beta, v[inside]])
            factors.append((bags, *both))
        loss = contour.joint_loss(factors, gaussian)
        # a bound of one of several points says little about their sum
        enough = enough if len(points) == 1 else 0.0
        total = sum(p * contour.loss_delta(loss, epsilon - x, enough) for x, p in points)
        out[:, inside] = np.asarray(total).reshape(3, 2, -1).max(axis=1)
    # what cannot be computed promises nothing
    return np.minimum(np.nan_to_num(out, nan=1.0), 1.0)


def _certify(
    charts: Sequence[Chart],
    value: Callable[[Reals, Reals, float], Reals],
    best: Bounds,
    most: int = _CELLS,
    slack: float = 0.0,
) -> Bounds:
    """Branch and bound: cut every box whose bound is above the best point met, first a corner."""
    left = np.array([[chart.low] for chart in charts])
    right = np.array([[chart.high] for chart in charts])
    if len(charts) == 1:
        # cells that halve towards either end, where the sup mostly is
        low, high = charts[0].low, charts[0].high
        steps = 0.5 * (high - low) * 0.5 ** np.arange(_LEVELS + 1.0)
        edges = np.unique(np.concatenate([[low], low + steps, high - steps, [high]]))
        left, right = edges[None, :-1], edges[None, 1:]
    ceiling, bound = 0.0, value(left, right, best.estimate)
    for _ in range(_ROUNDS):
        # Only boxes that may hold more than the best point met are cut further. Stopping early
        # loses tightness, not truth: every box, cut or not, enters the upper bound below.
        above = bound[1] > best.estimate * (1.0 + _AGREE) + _NEGLIGIBLE * slack
        if not 0 < np.sum(above) <= most:
            break
        # a box that is left keeps its bound in the answer
        ceiling = max(ceiling, float(bound[2][~above].max(initial=0.0)))
        left, right = left[:, above], right[:, above]
        centre = 0.5 * (left + right)
        for side in range(len(charts)):  # in two along each side
            middle = 0.5 * (left[side] + right[side])
            lower_end, upper_start = right.copy(), left.copy()
            lower_end[side] = upper_start[side] = middle
            left, right = np.hstack([left, upper_start]), np.hstack([lower_end, right])
        starts, ends = np.hstack([centre, left]), np.hstack([centre, right])
        found, bound = np.split(value(starts, ends, best.estimate), [centre.shape[1]], axis=1)
        best = max(best, _largest(found), key=lambda bounds: bounds.estimate)
    return Bounds(best.lower, best.estimate, max(ceiling, best.upper, float(bound[2].max())))


def _largest(values: Reals) -> Bounds:
    """Return the bounds of the box with the largest estimate."""
    lower, estimate, upper = values[:, int(np.argmax(values[1]))].tolist()
    return Bounds(lower, estimate, upper)


def residual_cosine(rows: int, radius: float, max_leverage: float, floor: float) -> float:
    """The largest |r_i|/σ_lb over rows of leverage at most H, whatever the labels (theory 3e).

    |r_i| ≤ ρ(h) = B(1−h+√((n−1)h(1−h))): the row of I − H has diagonal 1−h and the
    rest of it norm √(h(1−h)); labels lie within B = `radius` of a point the features can
    shift away. Also |r_i|/σ ≤ √(1−h). With h = sin²θ and cos φ = 1/√n,
    ρ = B√n cos θ cos(θ−φ) rises up to θ = φ/2 and falls after it, √(1−h) = cos θ falls, and
    they cross where B√n cos(θ−φ) = σ_lb.
    """
    positive(rows=rows, radius=radius, floor=floor)
    at_least(0.0, max_leverage=max_leverage)
    sigma, reach = math.sqrt(floor), radius * math.sqrt(rows)
    phi = math.acos(1.0 / math.sqrt(rows))
    theta = min(math.asin(math.sqrt(min(1.0, max_leverage))), 0.5 * phi)
    if reach * math.cos(theta - phi) > sigma:  # they cross before θ
        theta = max(0.0, phi - math.acos(sigma / reach))
        cosine = math.cos(theta)
    else:
        h = math.sin(theta) ** 2
        cosine = radius * (1.0 - h + math.sqrt((rows - 1) * h * (1.0 - h))) / sigma
    return min(1.0, cosine * (1.0 + 1e-12))
