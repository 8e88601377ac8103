"""How many bags the paper and an earlier bound allow on the same release, for comparison."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

from labeldp.errors import PlanError, at_least, in_range, positive
from labeldp_paper.theory.privacy import Theorem1

_DIGITS = 50


def theorem1_bags(
    rows: int, label_range: tuple[float, float], residual_ms: float, epsilon: float, delta: float
) -> tuple[int, str]:
    """Theorem 1's most bags, and the reason if it allows none."""
    try:
        return Theorem1(rows, label_range, residual_ms).max_bags(epsilon, delta), ""
    except PlanError as refusal:
        return 0, str(refusal)


def random_projection_max_bags(
    singular_value_ss: float, row_norm: float, epsilon: float, delta: float
) -> int:
    """Sheffet's random projection (theory 2): the most rows of RA that are (ε, δ)-DP.

    r ≤ (εσ_min²/(4B²) − ln(4/δ))²/(2 ln(4/δ)), 0 if the bracket is not positive; of the decimal
    numbers as written, to 50 digits.
    """
    positive(singular_value_ss=singular_value_ss, row_norm=row_norm, epsilon=epsilon)
    in_range(0.0, 1.0, delta=delta)
    with localcontext() as context:
        context.prec = _DIGITS
        given = (epsilon, singular_value_ss, row_norm, delta)
        eps, square, norm, chance = (Decimal(repr(float(value))) for value in given)
        log = (4 / chance).ln()
        bracket = eps * square / (4 * norm**2) - log
        return math.floor(bracket**2 / (2 * log)) if bracket > 0 else 0


def residual_from_singular_value(singular_value_ss: float, rows: int) -> float:
    """γ ≥ w²/n: the least residual mean square that σ_min² of [X | y] promises (Discussion).

    ‖y − Xr‖² = ‖[X | y](−r, 1)‖² ≥ w²(1 + ‖r‖²) ≥ w². (The paper pulls √(1 + ‖r‖²) out of a square;
    the factor is 1 + ‖r‖², and the conclusion stands.)
    """
    at_least(0.0, singular_value_ss=singular_value_ss)
    at_least(1, rows=rows)
    return singular_value_ss / rows
