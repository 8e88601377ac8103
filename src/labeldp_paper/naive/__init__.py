"""Naive LAg and FLAg, the warning example: what `labeldp` finds of them by entry point."""

from labeldp.mechanisms.demonstrations import Demonstration
from labeldp_paper.naive.account import answer
from labeldp_paper.naive.sums import release

DEMONSTRATION = Demonstration(
    options=("bags", "bag_size", "bag_seed"),
    release=release,
    account_fields=("bags", "bag_size"),
    account=answer,
)
