"""`Encoded`: rows as exact integers. `Packed`: rows as they are kept between passes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.features.compounds import Compounds
from labeldp.kernels import Codes


@dataclass(frozen=True)
class Encoded:
    """Rows as exact integers; one-hot columns stay codes, never dense.

    `numbers` holds the codes of numeric columns and their 0/1 indicators as whole float64
    numbers, in the order of `FeatureMap.number_columns`; `codes` holds one compound code per
    row for every group of `compounds`, in types too narrow for arithmetic.
    """

    rows: int
    numbers: NDArray[np.float64]
    codes: tuple[Codes, ...]
    compounds: Compounds

    @property
    def categories(self) -> tuple[NDArray[np.int32], ...]:
        """One level code per row for every categorical column."""
        return self.compounds.split(self.codes)

    def take(self, places: NDArray[Any]) -> Encoded:
        """Some of the rows."""
        codes = tuple(codes[places] for codes in self.codes)
        return Encoded(len(places), self.numbers[places], codes, self.compounds)


MISSING_CODE = -(2**31)


@dataclass(frozen=True)
class Packed:
    """Rows from which an encoder makes the same as from the table's, in less room and sooner.

    `numbers` holds every numeric column as it came, if that takes less than four bytes a row,
    else its codes, with `MISSING_CODE` where an indicator has to tell; `codes` holds the
    compound codes.
    """

    num_rows: int
    numbers: tuple[pa.Array | NDArray[np.int32], ...]
    codes: tuple[Codes, ...]

    @property
    def nbytes(self) -> int:
        return sum(int(column.nbytes) for column in (*self.numbers, *self.codes))


Rows = pa.RecordBatch | Packed
"""What an encoder reads."""
