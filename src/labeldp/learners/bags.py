"""Fit a ReLU network to weighted bags: of a release, of one's own, or of plain rows.

`WeightedBags` are rows with weights, in groups that share one label. Where the noise of labels is
public, networks are averaged and shrunk:

    1. every label is divided by its deviation, so that it counts for what it tells
                                                                  -> `standardise_labels`
    2. a network for each part of the bags is trained on the others -> `training.train`
    3. labels that a network has not seen say how much of it to keep -> `score_held_out`

All of it is post-processing of a release. torch is imported only to train.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import block_diag

from labeldp.data.source import Source, take_rows
from labeldp.errors import InputError, MissingExtraError
from labeldp.features.encoder import Encoder
from labeldp.features.feature_map import FeatureMap
from labeldp.learners.layers import Codes, Layers, Matrix, RowEncoder, without_constant
from labeldp.learners.linear import refuse_contradictions
from labeldp.learners.models import NetworkModel, NetworkOptions, Quality
from labeldp.learners.normal_equations import bag_members
from labeldp.passes.engine import Progress, quiet
from labeldp.release.files import WANTS_TABLE, labelled_rows
from labeldp.release.label_model import BagLabels, RowLabels

if TYPE_CHECKING:
    from labeldp.learners.training import TrainedNetwork
    from labeldp.release.files import Release

Array = NDArray[np.float64]

_ROUNDS = 10
_SCATTER = 5.0
"""Var r²/(E r²)² of Laplace noise; of Gaussian noise it is 2."""
_LEAST_VARIANCE = 1 / 400
"""Of the squared range, the smallest variance that labels are thought to have; 1/4 is the most."""
_DOUBT = 3.0
"""Deviations. Of releases that say next to nothing about a hundredth goes beyond."""


@dataclass(frozen=True)
class LabelUnits:
    """The affine map between labels and what a network is trained on: f = shift + scale · g.

    Aggregation is linear, so Σ w f = shift · Σ w + scale · Σ w g: subtracting from each bag label
    what the shift contributes, and dividing by the scale, loses nothing at any label scale.
    """

    shift: float
    scale: float
    energy: float
    """Σ w² over all rows: what one unit of variance per row adds up to, all bags together."""


@dataclass(frozen=True, eq=False)
class WeightedBags:
    """Bag j holds the rows offsets[j] to offsets[j+1] and one label, Σ weight · (row's label).

    Category codes count from 0 in each column; −1 is a level without a column of its own. If
    `aggregated`, a bag is a single pseudo-row of summed features, fit for a linear model alone.
    """

    categories: Codes = field(repr=False)
    numbers: Matrix = field(repr=False)
    weights: NDArray[np.float32] = field(repr=False)
    offsets: NDArray[np.int64] = field(repr=False)
    labels: Array = field(repr=False)
    category_sizes: tuple[int, ...]
    constants: Array = field(repr=False)
    """What the function 1 contributes to each bag: Σ w, or the aggregated constant column."""
    aggregated: bool = False
    features: FeatureMap | None = field(default=None, repr=False)
    """How raw rows become these; None if they were never raw."""

    def __post_init__(self) -> None:
        rows, bags = len(self.weights), len(self.labels)
        if bags == 0:
            raise InputError("there is no bag; nothing can be learnt")
        shapes = {
            "weights": (rows,),
            "categories": (rows, len(self.category_sizes)),
            "numbers": (rows, *self.numbers.shape[1:2]),
            "labels": (bags,),
            "offsets": (bags + 1,),
            "constants": (bags,),
        }
        for name, shape in shapes.items():
            values = getattr(self, name)
            if values.shape != shape:
                raise InputError(f"{name} has shape {values.shape} where {shape} was expected")
            if not np.isfinite(values).all():
                raise InputError(f"{name} holds values that are not finite")
        if self.offsets[0] != 0 or self.offsets[-1] != rows or np.any(self.lengths < 1):
            raise InputError("offsets must rise from 0 to the number of rows: no bag is empty")
        for index, size in enumerate(self.category_sizes):
            codes = self.categories[:, index]
            if codes.min(initial=-1) < -1 or codes.max(initial=-1) >= size:
                raise InputError(f"categories, column {index}: codes must be −1 to {size - 1}")

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.weights)

    @property
    def bags(self) -> int:
        """Number of bags."""
        return len(self.labels)

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Rows of each bag."""
        return np.diff(self.offsets)

    @property
    def row_norm(self) -> float | None:
        """The largest Euclidean norm of an encoded row; unknown once rows are aggregated."""
        if self.aggregated:
            return None
        ones = np.count_nonzero(self.categories >= 0, axis=1)
        squares = np.einsum("ij,ij->i", self.numbers, self.numbers, dtype=np.float64)
        return math.sqrt(float(np.max(ones + squares)))

    def units(self, *, scaled: bool = True) -> LabelUnits:
        """Return the best constant as shift, and the root mean square it leaves per row as scale.

        A label Σ w y over k rows has standard deviation about σ_y √k; energy accounts for the k.
        """
        energy = float(np.sum(np.square(self.weights, dtype=np.float64)))
        if self.aggregated and self.numbers.size:
            energy = float(np.sum(np.mean(np.square(self.numbers, dtype=np.float64), axis=1)))
        energy = energy or 1.0
        if not scaled:
            return LabelUnits(0.0, 1.0, energy)
        # A power of two is exact, and keeps squares of very large or small labels in range.
        unit = math.ldexp(1.0, math.frexp(float(np.max(np.abs(self.labels))))[1])
        labels, constants = self.labels / unit, self.constants
        square = float(constants @ constants)
        shift = float(constants @ labels) / square if square > 0 else 0.0
        scale = math.sqrt(float(np.sum((labels - shift * constants) ** 2)) / energy)
        return LabelUnits(shift * unit, (scale or 1.0) * unit, energy)

    @classmethod
    def from_release(cls, release: Release, source: Source | None) -> WeightedBags:
        """Return what a release teaches a network; rows that it names are read from the source.

        Labels of the source are not read.
        """
        labels, features = release.label_model, release.features
        if isinstance(labels, RowLabels):
            batches = (batch for batch, _ in labelled_rows(release, source))
            return cls.from_rows(features, batches, release.labels)
        if isinstance(labels, BagLabels):
            if source is None:
                raise InputError(WANTS_TABLE)
            return cls.from_source(features, source, labels.bags, release.labels)
        design, constant = release.design, features.constant
        return replace(
            cls.from_arrays(without_constant(design, features), release.labels),
            constants=np.zeros(len(design)) if constant is None else design[:, constant].copy(),
            aggregated=True,
            features=features,
        )

    @classmethod
    def from_arrays(cls, numbers: ArrayLike, labels: ArrayLike) -> WeightedBags:
        """Return every row of a numeric array as a bag of weight 1, with columns as they are."""
        values = np.asarray(numbers, dtype=np.float32)
        if values.ndim != 2:
            raise InputError(f"numbers must have two dimensions, not {values.ndim}")
        rows = len(values)
        return cls(
            np.empty((rows, 0), dtype=np.int32),
            values,
            np.ones(rows, dtype=np.float32),
            np.arange(rows + 1),
            np.asarray(labels, dtype=np.float64),
            (),
            np.ones(rows),
        )

    @classmethod
    def from_rows(
        cls, features: FeatureMap, batches: Iterable[pa.RecordBatch], labels: ArrayLike
    ) -> WeightedBags:
        """Return every row of batches of raw columns as a bag of weight 1."""
        encode, encoder = Encoder(features), RowEncoder(features)
        parts = [encoder.rows(encode(batch)) for batch in batches]
        if not parts:
            raise InputError("there is no row; nothing can be learnt")
        codes, numbers = (np.concatenate(each) for each in zip(*parts, strict=True))
        bags, sizes = cls.from_arrays(numbers, labels), encoder.sizes
        return replace(bags, categories=codes, category_sizes=sizes, features=features)

    @classmethod
    def from_source(
        cls, features: FeatureMap, source: Source, bag_table: pa.Table, labels: ArrayLike
    ) -> WeightedBags:
        """Return bags whose rows are taken from the source in one pass; its labels are not read.

        The table has the columns bag, row and weight. Only rows that stand in a bag are kept.
        """
        t = np.asarray(labels, dtype=np.float64)
        bag, row, weight = bag_members(bag_table, len(t))
        order = np.argsort(bag, kind="stable")
        weights = weight[order].astype(np.float32)
        offsets = np.concatenate([[0], np.cumsum(np.bincount(bag, minlength=len(t)))])
        wanted, places = np.unique(row[order], return_inverse=True)
        encoder = RowEncoder(features)
        codes = np.empty((len(wanted), len(encoder.sizes)), dtype=np.int32)
        numbers = np.empty((len(wanted), len(encoder.numbers)), dtype=np.float32)
        batches = source.feature_batches(features.columns)
        for part, batch in take_rows(batches, wanted, features.rows):
            codes[part], numbers[part] = encoder.rows(features.encode(batch))
        return cls(
            codes[places],
            numbers[places],
            weights,
            offsets,
            t,
            encoder.sizes,
            np.add.reduceat(weights.astype(np.float64), offsets[:-1]),
            features=features,
        )


# --- fitting ---


def fit_release(
    release: Release,
    source: Source | None,
    options: NetworkOptions,
    progress: Progress | None = None,
) -> NetworkModel:
    """Return the fit of the bags of a release, whose rows the source holds.

    Where every row has a label, it is a bag. Aggregated features teach a linear network only.
    Networks on labels whose noise is known are averaged and shrunk, unless options say no.
    """
    with refuse_contradictions():
        bags = WeightedBags.from_release(release, source)
        low, high = release.certificate["label_range"]
        label_range = float(low), float(high)
    if bags.aggregated and options.shrink:
        raise InputError("`shrink=True` needs rows or bags of rows, not aggregates; leave it out")
    averages = options.shrink
    if averages is None:
        averages = not (bags.aggregated or options.wants_one_network or bags.bags < 2)
    if averages:
        model = _fit_average(bags, release.noise, label_range, options, progress)
    else:
        model = fit_bags(bags, options, progress)
    return replace(model, label_range=label_range)


def fit_rows(
    rows: Array,
    labels: Array,
    names: tuple[str, ...] | None,
    options: NetworkOptions,
    progress: Progress | None = None,
) -> NetworkModel:
    """Return the fit of plain rows, standardised column by column."""
    centre, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread <= 1e-12 * np.abs(centre)] = 1.0  # constant, but for rounding
    bags = WeightedBags.from_arrays((rows - centre) / spread, labels)
    model = fit_bags(bags, options, progress)
    return replace(model, centre=centre.tolist(), spread=spread.tolist(), feature_names=names)


def fit_bags(
    bags: WeightedBags, options: NetworkOptions, progress: Progress | None = None
) -> NetworkModel:
    """Return one network, fitted to any bags."""
    if bags.aggregated and options.hidden:
        raise InputError(
            "a network with hidden layers cannot be fitted on aggregated features, because "
            "f(Σ w x) is not Σ w f(x): set hidden=(), or use a release that keeps the rows of "
            "its bags (sampled-noisy-wtd-lag)"
        )
    units = bags.units(scaled=options.scale_labels)
    networks = _train(bags, units, options, progress)
    return _model(bags, options, networks[0].matrices, networks, units)


def _train(
    bags: WeightedBags,
    units: LabelUnits,
    options: NetworkOptions,
    progress: Progress | None,
    *,
    in_parts: bool = False,
) -> list[TrainedNetwork]:
    """Return what `training.train` does; it needs torch."""
    try:
        from labeldp.learners import training
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise MissingExtraError("the neural learner", "torch") from None
    epochs = options.epochs * (options.folds if in_parts else 1)
    with (progress or quiet)("epochs", epochs) as advance:
        return training.train(bags, units, options, advance, in_parts=in_parts)


def _model(
    bags: WeightedBags,
    options: NetworkOptions,
    matrices: tuple[Matrix, ...],
    networks: Sequence[TrainedNetwork],
    units: LabelUnits,
) -> NetworkModel:
    """Return the model of these matrices; losses are means over the networks."""
    losses = zip(*(network.losses for network in networks), strict=True)
    validation = zip(*(network.validation_losses for network in networks), strict=True)
    was_array, width = bags.features is None and not bags.category_sizes, bags.numbers.shape[1]
    return NetworkModel(
        options=options,
        layers=Layers(bags.category_sizes, matrices),
        features=bags.features,
        input="columns" if was_array else "design" if bags.aggregated else "codes",
        shift=units.shift,
        scale=units.scale,
        losses=[units.scale**2 * float(np.mean(epoch)) for epoch in losses],
        validation_losses=[units.scale**2 * float(np.mean(epoch)) for epoch in validation],
        best_epoch=max(network.best_epoch for network in networks),
        row_norm=bags.row_norm,
        centre=[0.0] * width if was_array else None,
        spread=[1.0] * width if was_array else None,
        feature_names=None if bags.features is None else bags.features.names,
    )


# --- labels whose noise is known ---


def _fit_average(
    bags: WeightedBags,
    std: Array,
    label_range: tuple[float, float],
    options: NetworkOptions,
    progress: Progress | None,
) -> NetworkModel:
    """Return the mean of networks that have not seen different labels, as far as these support it.

    All labels together judge, each the network that neither learnt from it nor stopped by it.
    """
    standard, units = standardise_labels(bags, std, label_range)
    networks = _train(standard, standard.units(scaled=False), options, progress, in_parts=True)
    held_out = np.concatenate([network.held_out for network in networks])
    outputs = np.concatenate([network.outputs for network in networks])
    share, gain, gain_error = score_held_out(standard.labels[held_out], outputs)
    matrices = average_networks([network.matrices for network in networks], share)
    # Per row: as a share of the labels' variance, and in squared label units.
    r2, r2_error, variance = gain / units.energy, gain_error / units.energy, units.scale**2
    quality = Quality(variance * r2, variance * r2_error, r2, r2_error)
    return replace(_model(bags, options, matrices, networks, units), share=share, quality=quality)


def standardise_labels(
    bags: WeightedBags, std: Array, label_range: tuple[float, float]
) -> tuple[WeightedBags, LabelUnits]:
    """Return bags for g in which every label counts for what it tells, and how f follows from g.

    Bag j has the label t_j = Σ w f(x) + residuals + noise. With noise of deviation s_j, which is
    public, and a residual variance v per row, its variance is s_j² + v·Σw². Divided by its root,
    every label has variance 1, and least squares weighs it by what it tells: the deviations of
    sampled-noisy-wtd-LAg differ by a factor of a thousand. The shift is the best constant, the
    scale the deviation √v of single labels about it.
    """
    squares = np.square(bags.weights, dtype=np.float64)
    energy = np.asarray(np.add.reduceat(squares, bags.offsets[:-1]))  # Σw² of each bag
    # The range is the prior: labels spread evenly have the middle as mean and Δ²/12 as variance.
    # Few noisy labels move neither far from there.
    low, high = label_range
    middle, prior = (low + high) / 2, (high - low) ** 2 / 12
    least, most = _LEAST_VARIANCE * (high - low) ** 2, (high - low) ** 2 / 4
    about_middle = bags.labels - middle * bags.constants
    shift, variance = middle, prior
    for _ in range(_ROUNDS):
        precision = 1 / (std**2 + variance * energy)
        weights = precision * bags.constants
        mean_precision = float(weights @ bags.constants)
        shift = middle + float(weights @ about_middle) / (mean_precision + 1 / prior)
        above = (bags.labels - shift * bags.constants) ** 2 - std**2
        information = float(np.sum((precision * energy) ** 2))  # E above = variance·energy
        moment = float((precision**2 * energy) @ above) / information
        variance = (moment * information / _SCATTER + 1 / prior) / (
            information / _SCATTER + 1 / prior**2
        )
        variance = float(np.clip(variance, least, most))
    scale, spread = math.sqrt(variance), np.sqrt(std**2 + variance * energy)
    row_weights = bags.weights * (scale / np.repeat(spread, bags.lengths))
    standardised = replace(
        bags,
        weights=row_weights.astype(np.float32),
        labels=(bags.labels - shift * bags.constants) / spread,
        constants=bags.constants * scale / spread,
    )
    return standardised, LabelUnits(shift, scale, standardised.units(scaled=False).energy)


def score_held_out(labels: Array, outputs: Array) -> tuple[float, float, float]:
    """Return what labels that a network has not seen say of it: share, gain and its error.

    The share α is how much of the outputs to keep, for labels = α·outputs + noise of variance 1:
    James and Stein's. The gain is by how much the sum of squares is less than the constant's. z is
    by how many deviations the labels speak for the network. Those of one part taught the networks
    that the others judge, so that noise which several parts happen to share speaks for them as
    well: z has a longer tail than a normal number, and up to `_DOUBT` nothing is kept.
    """
    length = math.sqrt(float(outputs @ outputs))
    z = float(labels @ outputs) / length if length > 0 else 0.0
    if z <= _DOUBT:
        return 0.0, 0.0, 0.0
    share = min(1.0, z / length) * (1 - (_DOUBT / z) ** 2)
    gain = share * (2 * z - share * length) * length
    return share, gain, 2 * share * length


def average_networks(networks: Sequence[tuple[Matrix, ...]], share: float) -> tuple[Matrix, ...]:
    """Return the network whose output is `share` of the mean of these: they side by side."""

    def scaled(matrix: Matrix, factor: float) -> Matrix:
        return (matrix * np.float64(factor)).astype(np.float32)

    first, *others = zip(*networks, strict=True)
    if not others:
        return (scaled(np.mean(first, axis=0), share),)
    *middle, last = others
    joined = [np.hstack(first)]
    for matrices in middle:  # no network sees another's inputs; the biases are the last row
        blocks = block_diag(*(matrix[:-1] for matrix in matrices))
        joined.append(np.vstack([blocks, np.hstack([matrix[-1:] for matrix in matrices])]))
    outputs = np.vstack([*(matrix[:-1] for matrix in last), sum(matrix[-1:] for matrix in last)])
    return (*joined, scaled(outputs, share / len(networks)))
