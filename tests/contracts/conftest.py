"""Contracts hold in the same places as other tests of a room: what serves those serves both."""

from tests.engines.conftest import either, home, spark
from tests.mechanisms.conftest import made, mechanism, released

__all__ = ["either", "home", "made", "mechanism", "released", "spark"]
