"""Where passes over the data run.

An engine turns a source into exact sums; it never sees randomness, a budget or a
certificate, so its choice can change speed and nothing else. `local` runs on threads; the
one for Spark data frames has a room of its own. Other rooms import from this page alone.
"""
