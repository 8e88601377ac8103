"""Contracts of engines hold in the same places as their other tests: one Spark serves both."""

from tests.engines.conftest import either, home, spark

__all__ = ["either", "home", "spark"]
