"""Write references.json: δ(ε) of L = κ + αG1 − βG2 to 20 digits, by an independent road.

    python tests/accounting/make_references.py

Method: condition on G2 (theory 3b), with the closed form of the inner expectation through
the regularised incomplete gamma function of Arb (ball arithmetic, 300 digits), and the outer
integral by mpmath at 60 digits. Nothing is shared with the contour or with the quadrature of
the package: no saddle, no series, no floating point. Takes a few minutes.
"""

from __future__ import annotations

import json
import math
from itertools import pairwise
from pathlib import Path

import mpmath as mp
from flint import arb, ctx

ctx.dps = 300
mp.mp.dps = 60


def to_arb(x: mp.mpf) -> arb:
    return arb(mp.nstr(x, 70))


def to_mp(x: arb) -> mp.mpf:
    return mp.mpf(x.mid().str(70, radius=False))


def upper_gamma(shape: arb, x: arb) -> arb:
    return arb.gamma_upper(x, shape, regularized=1)


def excess(x: mp.mpf, shape: arb, alpha: arb) -> mp.mpf:
    """E[(1 − e^{x−αG})₊] by its closed form; 1 − e^x(1+α)^{−a} for x ≤ 0."""
    z = to_arb(x)
    tilt = (z - shape * (1 + alpha).log()).exp()
    if x <= 0:
        return to_mp(1 - (tilt if alpha > 0 else z.exp()))
    if not alpha > 0:
        return mp.mpf(0)
    return to_mp(upper_gamma(shape, z / alpha) - tilt * upper_gamma(shape, z * (1 + alpha) / alpha))


def reference(bags: int, alpha: float, beta: float, epsilon: float) -> mp.mpf:
    shape, a, b, e = arb(bags) / 2, arb(alpha), arb(beta), arb(epsilon)
    level = to_mp(e + shape * ((1 + a).log() + (1 - b).log()))
    if beta == 0:
        return excess(level, shape, a)
    half, slope = mp.mpf(bags) / 2, mp.mpf(beta)

    def integrand(s: mp.mpf) -> mp.mpf:
        density = mp.exp((2 * half - 1) * mp.log(s) - s * s - mp.loggamma(half)) * 2
        return density * excess(level + slope * s * s, shape, a)

    corner = mp.sqrt(max(mp.mpf(0), -level / slope))
    low, high = max(mp.mpf(0), mp.sqrt(half) - 7), mp.sqrt(half) + 7
    spread = mp.sqrt(half)
    ends = {low, high} | {low + (high - low) * k / 12 for k in range(1, 12)}
    for k in (-8, -3, 0, 1, 3, 8, 20, 50):
        square = (mp.mpf(alpha) * (half + k * spread) - level) / slope
        if square > 0:
            ends.add(mp.sqrt(square))
    ends = sorted(x for x in ends | {corner} if low <= x <= high)
    total = mp.mpf(0)
    for left, right in pairwise(ends):
        if left == corner:  # smooth in w = √(s − s*)
            top = mp.sqrt(right - left)
            total += gauss(lambda w, at=left: 2 * w * integrand(at + w * w), 0, top)
        else:
            total += gauss(integrand, left, right)
    return total


NODES = [(x, w) for x, w in mp.calculus.quadrature.GaussLegendre(mp.mp).calc_nodes(4, 220)]


def gauss(f, left, right):  # 48 nodes per panel
    middle, half = (left + right) / 2, (right - left) / 2
    return half * mp.fsum(w * f(middle + half * x) for x, w in NODES)


def cases() -> list[tuple[int, float, float, float]]:
    """Sizes from 1 to 1e7, both signs of the skew, ε so that δ runs from about 0.5 to 1e-12."""
    out = []
    for bags in (1, 2, 3, 10, 247, 10_001, 1_000_000, 10_000_000):
        for share, effect in ((0.0, 0.3), (1.0, 0.3), (0.5, 1.0), (0.999, 0.1), (0.02, 0.7)):
            scale = effect / math.sqrt(bags / 2)
            alpha, beta = float(f"{scale * (1 - share):.6g}"), float(f"{scale * share:.6g}")
            beta = min(beta, 0.6)
            sigma = math.sqrt(bags / 2) * math.hypot(alpha, beta)
            for deviations in (0.0, 1.5, 4.0, 6.5):
                epsilon = float(f"{sigma * deviations + sigma**2 / 2:.6g}") if deviations else 0.0
                out.append((bags, alpha, beta, epsilon))
    far = [(60_000, 0.0015, 0.0, epsilon) for epsilon in (3.0, 6.0, 8.0)]  # down to 1e-187
    return out + far


def main() -> None:
    rows = []
    for bags, alpha, beta, epsilon in cases():
        value = reference(bags, alpha, beta, epsilon)
        print(bags, alpha, beta, epsilon, mp.nstr(value, 20), flush=True)
        if value > mp.mpf("1e-13") or bags == 60_000:
            rows.append([bags, alpha, beta, epsilon, mp.nstr(value, 20)])
    lines = ",\n".join(json.dumps(row) for row in rows)
    Path(__file__).with_name("references.json").write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
