"""Where passes over the data run.

An engine turns a source into exact sums; it never sees randomness, a budget or a
certificate, so its choice can change speed and nothing else. `local` runs on threads; the
one for Spark data frames has a room of its own. Other rooms import from this page alone.
"""

from labeldp.engines.local import LocalEngine
from labeldp.engines.protocol import Engine, Progress, quiet
from labeldp.source import Source

__all__ = ["Engine", "LocalEngine", "Progress", "engine_for", "quiet"]


def engine_for(source: Source) -> Engine:
    """The engine that can read a source, if nobody names one."""
    made = source.reader.engine
    return LocalEngine() if made is None else made()
