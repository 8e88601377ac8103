"""The public half of a release: weights, and which rows carry noise. No label is involved.

Both follow from the draw's seed. With realised accounting a bag whose weights give some row a
μ above the target gets new weights: labels play no part, so this is free (theory §4).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.accounting.weighted_bags import realised_mu
from labeldp.data.batches import take_rows
from labeldp.data.source import Source
from labeldp.errors import DataError, InputError, PlanError
from labeldp.mechanisms.bags import Draw
from labeldp.mechanisms.sampled_noisy_wtd_lag.published import WEIGHTED
from labeldp.sampling import rounded_noise
from labeldp.sampling.streams import normals, words

_MOST_ROUNDS = 1000


@dataclass(frozen=True, eq=False)
class BagWeights:
    """One line per bag, one column per row in it."""

    values: NDArray[np.float64]
    noisy: NDArray[np.bool_]

    def largest_mu(self, width: float, noise_std: float) -> float:
        """The largest μ of a row in any bag."""
        return float(realised_mu(self.values, self.noisy, width, noise_std).max())

    def noise(self, noise_std: float) -> NDArray[np.float64]:
        """The deviation of each aggregate label, s·√(Σ w² over noisy rows)."""
        return np.asarray(noise_std * np.sqrt(np.square(self.values).sum(axis=1, where=self.noisy)))

    def table(self, draw: Draw) -> pa.Table:
        """(bag, row, weight, noisy), bag by bag."""
        bag = np.repeat(np.arange(draw.bags, dtype=np.int32), draw.bag_size)
        columns = [bag, draw.members.reshape(-1), self.values.reshape(-1), self.noisy.reshape(-1)]
        return pa.table(columns, schema=WEIGHTED)

    @classmethod
    def from_table(cls, table: pa.Table, draw: Draw) -> BagWeights:
        """What `table` wrote, if the bags have their size."""
        shape = (draw.bags, draw.bag_size)
        values, noisy = table.column("weight"), table.column("noisy")
        return cls(
            values.to_numpy().reshape(shape),
            noisy.to_numpy(zero_copy_only=False).astype(bool).reshape(shape),
        )


def label_grid(noise: NDArray[np.float64]) -> int:
    """The public grid of aggregate labels: that of the least noisy one."""
    return rounded_noise.grid_for(float(noise.min()))


def coins(draw: Draw, fraction: float) -> NDArray[np.bool_]:
    """Which rows are noisy, each by its own coin."""
    drawn = words(draw.stream("noisy rows"), draw.members.size)
    if fraction >= 1.0:
        return np.full(draw.members.shape, True)
    chosen = drawn < np.uint64(math.floor(fraction * 2.0**64))
    return np.asarray(chosen).reshape(draw.members.shape)


def noisy_share(source: Source, column: str) -> float:
    """The part of the table's rows that a public column marks as noisy."""
    _check_column(source, column)
    marked = rows = 0
    for batch in source.feature_batches([column]):
        marked += int(_truth(batch.column(0), column).sum())
        rows += batch.num_rows
    return marked / max(1, rows)


def _check_column(source: Source, column: str) -> None:
    if column == source.label:
        raise InputError(f"`noisy_column` {column!r} is the label; name a public column")
    if column not in source.reader.schema.names:
        raise InputError(f"`noisy_column`: there is no column {column!r}; name a public column")


def chosen_rows(draw: Draw, source: Source, column: str) -> NDArray[np.bool_]:
    """Which rows are noisy, as a public column says."""
    _check_column(source, column)
    order = np.argsort(draw.members, axis=None)
    found = np.zeros(draw.members.size, dtype=bool)
    wanted = draw.members.reshape(-1)[order]
    for places, batch in take_rows(source.feature_batches([column]), wanted, draw.rows):
        found[places] = _truth(batch.column(0), column)
    mask = np.empty_like(found)
    mask[order] = found
    return mask.reshape(draw.members.shape)


_TRUTH = {"true": True, "1": True, "false": False, "0": False}


def _truth(values: pa.Array, column: str) -> NDArray[np.bool_]:
    """A column of true/false or 1/0, or of these as text: a CSV column that is no feature is."""
    kind = values.type
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_string(kind):
        words = pc.utf8_lower(values.cast(pa.string()))
        if pc.all(pc.is_in(words, pa.array(list(_TRUTH)))).as_py():
            marks = pc.is_in(words, pa.array([word for word, truth in _TRUTH.items() if truth]))
            return np.asarray(marks.to_numpy(zero_copy_only=False))
    raise DataError(f"`noisy_column` {column!r} must hold true/false or 1/0, and no gaps")


def draw_weights(
    draw: Draw, noisy: NDArray[np.bool_], width: float, noise_std: float, target: float | None
) -> BagWeights:
    """Weights from the seed; with a target, bags whose μ is above it are drawn again."""
    if not noisy.any(axis=1).all():
        raise PlanError(
            "a bag holds no noisy row, so its label has no noise at all; make bags larger or more "
            "rows noisy"
        )
    stream = draw.stream("weights")
    values = normals(stream, noisy.size).reshape(noisy.shape)
    size = draw.bag_size
    if target is None:
        return BagWeights(values, noisy)
    over = np.arange(len(values))
    for _ in range(_MOST_ROUNDS):
        mu = realised_mu(values[over], noisy[over], width, noise_std)
        over = over[mu > target]
        if not len(over):
            return BagWeights(values, noisy)
        fresh = normals(stream, len(over) * size)
        values[over] = fresh.reshape(len(over), size)
    raise PlanError(
        f"{len(over)} bags of {size} rows stay above μ = {target:.3g} however often "
        "their weights are drawn; make bags larger, more rows noisy, or the noise stronger"
    )
