"""Data to try things on.

synthetic.py   stand-ins drawn from a model: clearly synthetic, any size, streamed
"""

from labeldp.datasets.synthetic import CENSUS_RANGE, census_like, write_census_like

__all__ = ["CENSUS_RANGE", "census_like", "write_census_like"]
