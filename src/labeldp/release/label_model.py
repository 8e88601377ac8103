"""What learners may assume about the labels of a release; its mechanism says which model holds.

RowLabels       y_i + noise, for every row
BagLabels       Σ w·y + noise, over the rows of a bag
SumLabels       t = C·Xᵀy + noise, over all rows, beside Z = C·XᵀX
SketchedLabels  rows of [Z | t] with secret Gaussian weights
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class RowLabels:
    """One label for every row, with independent noise of one distribution."""

    std: float
    """Standard deviation of the noise."""
    kurtosis: float = 3.0
    """Kurtosis of the noise; 3 if it is normal."""


@dataclass(frozen=True, eq=False)
class BagLabels:
    """Labels aggregated over bags of rows; the features stay in the curator's table."""

    std: Array = field(repr=False)
    """Standard deviation of the noise on each bag's label."""
    bags: pa.Table = field(repr=False)
    """Columns `bag`, `row` and `weight`: the rows of each bag, and their weights."""


@dataclass(frozen=True, eq=False)
class SumLabels:
    """As many sums over all rows as design columns, with public weights and independent noise."""

    std: Array = field(repr=False)
    """Standard deviation of the noise on each label."""
    weights: Array = field(repr=False)
    """C, sums × design columns: a row x of the design, in its scales, has the weights C·x."""
    radial: bool = False
    """Whether the noise vector is radial; else its entries are normal."""
    residual: tuple[float, float] | None = None
    """The noisy root of the residual sum of squares, and the standard deviation of its noise; None
    if it was not published."""


@dataclass(frozen=True)
class SketchedLabels:
    """Sums of features and label with secret weights: a fit estimates its own noise."""

    share: float = 1.0
    """Share of all rows that a sum has."""
    added_variance: float = 0.0
    """Variance of the noise that was added to every label."""


LabelModel = RowLabels | BagLabels | SumLabels | SketchedLabels
