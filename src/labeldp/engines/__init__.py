"""Where passes over the data run.

An engine turns a source into exact sums; it never sees randomness, a budget or a
certificate, so its choice can change speed and nothing else. `local` runs on threads,
`spark` where the partitions of a Spark data frame are.
"""

from labeldp.engines.local import LocalEngine
from labeldp.engines.protocol import Engine, Progress, quiet
from labeldp.source import Source
from labeldp.spark.engine import SparkEngine
from labeldp.spark.reader import ClusterReader

__all__ = ["Engine", "LocalEngine", "Progress", "SparkEngine", "engine_for", "quiet"]


def engine_for(source: Source) -> Engine:
    """The engine that can read a source, if nobody names one."""
    return SparkEngine() if isinstance(source.reader, ClusterReader) else LocalEngine()
