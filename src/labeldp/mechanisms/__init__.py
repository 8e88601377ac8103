"""The mechanisms; each is one folder and knows no other.

    wtd_flag               wtd-FLAg, Algorithm 1: every aggregate weighs all rows
    shaped_flag            shaped-flag: every aggregate weighs all rows, with chosen public weights
    sampled_wtd_flag       sampled-wtd-FLAg, Algorithm 2: one aggregate of each of m random bags
    sampled_noisy_wtd_lag  sampled-noisy-wtd-LAg, Algorithm 3: noisy labels, public weights
    naive                  unweighted sums, never private: the warning example

A folder's front page declares the mechanism (`protocol.Mechanism`); `registry` knows where the
folders are. In each: `claim` (what is promised), `plan` (from features alone), `run` (the one pass
over labels), `check` (what `verify` looks at). What they share stands beside them.
"""

from labeldp.mechanisms.options import DrawOptions, FloorOptions, Options, Request, option
from labeldp.mechanisms.protocol import Account, Inspection, Mechanism, later
from labeldp.mechanisms.registry import (
    forget,
    make_request,
    mechanism_named,
    mechanism_names,
    mechanisms,
    register,
)
from labeldp.mechanisms.words import WORDS, Shown, Words, draw_words, floor_words, number

__all__ = [
    "WORDS",
    "Account",
    "DrawOptions",
    "FloorOptions",
    "Inspection",
    "Mechanism",
    "Options",
    "Request",
    "Shown",
    "Words",
    "draw_words",
    "floor_words",
    "forget",
    "later",
    "make_request",
    "mechanism_named",
    "mechanism_names",
    "mechanisms",
    "number",
    "option",
    "register",
]
