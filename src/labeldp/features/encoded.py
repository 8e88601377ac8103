"""`Encoded`: rows as exact integers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Encoded:
    """Rows as exact integers; one-hot columns stay codes, never dense.

    `numbers` holds the codes of numeric columns and their 0/1 indicators as whole float64
    numbers, in the order of `FeatureMap.number_columns`; `categories` holds one level code
    per row for every categorical column.
    """

    rows: int
    numbers: NDArray[np.float64]
    categories: tuple[NDArray[np.int32], ...]
