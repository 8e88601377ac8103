"""How aggregates are drawn; each mechanism is one file and knows no other.

weighted_flag   wtd-FLAg, Algorithm 1: every aggregate weighs all rows
"""

from labeldp.errors import InputError
from labeldp.mechanisms.weighted_flag import Aggregates, draw_aggregates, measure_residual

WTD_FLAG = "wtd-flag"
MECHANISMS = (WTD_FLAG,)


def check_mechanism(name: str) -> None:
    """Refuse an unknown mechanism."""
    if name not in MECHANISMS:
        raise InputError(f"mechanism {name!r} is unknown; choose {', '.join(MECHANISMS)}")


__all__ = [
    "MECHANISMS",
    "WTD_FLAG",
    "Aggregates",
    "check_mechanism",
    "draw_aggregates",
    "measure_residual",
]
