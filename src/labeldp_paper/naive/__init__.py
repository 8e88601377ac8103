"""Naive LAg and FLAg, the warning example: what `labeldp` finds of them by entry point."""

from labeldp.mechanisms.options import BagsQuestion
from labeldp.mechanisms.protocol import Account, Demonstration, later

NAIVE_FLAG, NAIVE_LAG = NAIVE = "naive-flag", "naive-lag"

DEMONSTRATION = Demonstration(
    options=("bags", "bag_size", "bag_seed"),
    release=later(f"{__name__}.sums:release"),
    account=Account(
        BagsQuestion,
        later(f"{__name__}.account:answer"),
        later("labeldp.mechanisms.account:show"),
    ),
)
