"""What the labels of a release are: all that a learner knows of the mechanism, which declares it.

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
    """Every row's own label, with independent noise of one law."""

    std: float
    """Of the noise."""
    kurtosis: float = 3.0
    """Of the noise: that of normal noise, or another law's."""


@dataclass(frozen=True, eq=False)
class BagLabels:
    """Labels aggregated alone, over bags of rows that the table holds."""

    std: Array = field(repr=False)
    """Of the noise on each bag's label."""
    bags: pa.Table = field(repr=False)
    """The columns `bag`, `row` and `weight`: which rows stand in which bag, and their weights."""


@dataclass(frozen=True, eq=False)
class SumLabels:
    """As many sums of all rows as design columns, with public weights, and independent noise."""

    std: Array = field(repr=False)
    """Of the noise on each label."""
    weights: Array = field(repr=False)
    """C: a row for every sum, of what design columns, in their scales, weigh in a row's weight."""
    radial: bool = False
    """Whether the noise is radial in all labels together; else it is normal."""
    residual: tuple[float, float] | None = None
    """The root of the residual sum of squares with noise, and the noise's deviation; None: it was
    not published."""


@dataclass(frozen=True)
class SketchedLabels:
    """Sums of features and label with weights that nobody knows: a fit estimates its own noise."""

    share: float = 1.0
    """Of all rows, those that a sum weighs."""
    added_variance: float = 0.0
    """Of the noise that was added to every label."""


LabelModel = RowLabels | BagLabels | SumLabels | SketchedLabels
