"""`Weights`: the public matrix C of shaped-flag (theory §9), and the S that it stands for.

Row i has the weight c_j·x_i in aggregate j. One label moves the aggregates by at most Δ·‖C x_i‖,
so the guarantee rests on max ‖C x_i‖ alone (`weight_scan.py`), for C as it is published: whatever
went into choosing it, and however it was rounded, cannot hurt.

With the factor's L·Lᵀ = XᵀX and S = K·Kᵀ, both triangular, C = K⁻¹L⁻¹ is lower triangular and
CᵀC = L⁻ᵀS⁻¹L⁻¹: half the file, and aggregate j holds the first j columns only.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from labeldp.exact.cholesky import ROUNDOFF, VerifiedCholesky, content, square_of

_BITS = 40
"""Significant bits of a published weight: far more than S needs, and five bytes in a file."""
_CUT = 53 - _BITS
_EXPONENTS = 400
"""Weights lie between 2 to the power of less and of more than this: squares, and their products
with squares of codes, are then ordinary doubles, of which rounding errors are relative."""


@dataclass(frozen=True)
class Weights:
    """C for the integer codes of the kept columns; lower triangular, doubles."""

    kept: tuple[int, ...]
    matrix: NDArray[np.float64] = field(repr=False)

    @property
    def rank(self) -> int:
        """Aggregates: rows of C, and terms of an entry of CᵀC at most."""
        return len(self.matrix)

    def problem(self) -> str | None:
        """Why no length can be trusted, which counts on a lower triangle of numbers; or None."""
        if not np.isfinite(self.matrix).all():
            return "the weights are not all numbers"
        _, exponents = np.frexp(self.matrix[self.matrix != 0])
        if (np.abs(exponents) > _EXPONENTS).any():
            return "the weights are too large or too small to be measured"
        if np.triu(self.matrix, 1).any() or not np.diagonal(self.matrix).all():
            return "the weights are not an invertible lower triangle"
        return None

    def identity(self) -> tuple[object, ...]:
        """What tells weights apart."""
        return self.kept, content(self.matrix)

    def to_json(self) -> dict[str, Any]:
        """As plain values: the lower triangle, row by row, in eight bytes each."""
        entries = self.matrix[np.tril_indices(self.rank)].astype("<f8").tobytes()
        return {"kept": list(self.kept), "lower": base64.b64encode(entries).decode()}

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Weights:
        """The inverse of `to_json`."""
        kept = tuple(document["kept"])
        matrix = np.zeros((len(kept), len(kept)))
        entries = np.frombuffer(base64.b64decode(document["lower"]), "<f8")
        matrix[np.tril_indices(len(kept))] = entries
        return cls(kept, matrix)

    def scaled(self, exponent: int) -> Weights:
        """C·2**exponent, exactly."""
        return Weights(self.kept, np.ldexp(self.matrix, exponent))

    def pseudo_inverse(self) -> NDArray[np.float64]:
        """M = CᵀC, whose every entry is an inner product of at most `rank` terms."""
        return square_of(self.matrix)

    def pseudo_inverse_size(self) -> NDArray[np.float64]:
        """Σ|terms| of every entry of M: what its rounding is relative to."""
        return square_of(np.abs(self.matrix))

    def column_norms(self) -> NDArray[np.float64]:
        """Of the columns of C."""
        return np.asarray(np.linalg.norm(self.matrix, axis=0))

    def longest(self, rows: NDArray[np.float64]) -> float:
        """At least ‖C x‖² of every one of these dense rows of integers.

        Inner products of `rank` terms in any order: far less is lost than in xᵀ(CᵀC)x.
        """
        lengths = np.linalg.norm(rows @ self.matrix.T, axis=1)
        sizes = np.linalg.norm(np.abs(rows) @ np.abs(self.matrix.T), axis=1)
        upper = lengths + 2 * (self.rank + 4) * ROUNDOFF * sizes
        return float(upper.max(initial=0.0)) ** 2 * (1 + 8 * ROUNDOFF)

    def noise_root(self, factor: VerifiedCholesky) -> NDArray[np.float64]:
        """K = (C·L)⁻¹, so that K·Kᵀ is the S of this C, up to rounding."""
        from scipy.linalg.lapack import dtrtri

        return np.asarray(dtrtri(self.whitened(factor), lower=1)[0])

    def whitened(self, factor: VerifiedCholesky) -> NDArray[np.float64]:
        """C·L: the weights in whitened coordinates, in which XᵀX is the identity."""
        from scipy.linalg.blas import dtrmm

        plain = np.ldexp(self.matrix, factor.exponents)
        return np.tril(dtrmm(1.0, factor.lower, plain, side=1, lower=1))


def weights_of(factor: VerifiedCholesky, scaled: NDArray[np.float64]) -> Weights:
    """C of scaled codes x·2**-e as weights of codes, rounded to what is published."""
    lower = np.tril(scaled)
    return Weights(factor.kept, _rounded(np.ldexp(lower, -factor.exponents, out=lower)))


def _rounded(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """To so many significant bits, ties to even: in the bits of the doubles themselves."""
    bits = values.view(np.int64)
    odd = (bits >> _CUT) & 1
    odd += bits
    odd += (1 << (_CUT - 1)) - 1
    odd &= -1 << _CUT
    return odd.view(np.float64)
