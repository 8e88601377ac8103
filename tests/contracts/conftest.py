"""Contracts hold in the same places as other tests of a room: what serves those serves both."""

from tests.mechanisms.conftest import made, mechanism, released
from tests.passes.conftest import either, home, spark

__all__ = ["either", "home", "made", "mechanism", "released", "spark"]
