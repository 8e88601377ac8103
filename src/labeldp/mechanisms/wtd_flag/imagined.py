"""Utility of wtd-FLAg is known in closed form: nothing to imagine."""

from __future__ import annotations

import numpy as np

from labeldp.mechanisms.protocol import Draft, Imagined
from labeldp.source import Source


def imagine(draft: Draft, source: Source, stream: np.random.Generator) -> Imagined | None:  # noqa: ARG001
    """Nothing."""
    return None
