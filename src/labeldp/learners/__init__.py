"""Learners that read a release: least squares, ridge and bounded norm, with exact intervals."""

from labeldp.learners.linear import Coefficient, LinearRegressor

__all__ = ["Coefficient", "LinearRegressor"]
