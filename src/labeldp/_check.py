"""The checks of `labeldp.errors`, as long as modules import them from here."""

from labeldp.errors import at_least, finite, in_range, ordered, positive

__all__ = ["at_least", "finite", "in_range", "ordered", "positive"]
