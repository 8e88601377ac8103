"""Where passes over the data run.

An engine turns a source into exact sums; it never sees randomness, a budget or a
certificate, so its choice can change speed and nothing else. `local` runs on threads.
"""

from labeldp.engines.local import LocalEngine
from labeldp.engines.protocol import Engine, Progress, quiet

__all__ = ["Engine", "LocalEngine", "Progress", "quiet"]
