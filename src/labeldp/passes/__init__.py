"""Passes over a table: exact sums of accumulators, the same on every engine.

    accumulator.py  Accumulator, PassRequirements: what a pass adds up
    engine.py       Engine, LocalEngine: who runs passes; features kept in memory between them

An engine turns a source into the results of accumulators; it never sees randomness, a budget or
a certificate, so its choice can change speed and nothing else. The engine for Spark data frames
is `labeldp.spark`.
"""
