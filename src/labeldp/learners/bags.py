"""Fit a ReLU network to weighted bags of a release, or to plain rows.

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
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.linalg import block_diag

from labeldp.data.source import Source, take_rows
from labeldp.errors import InputError, MissingExtraError
from labeldp.features.feature_map import FeatureMap
from labeldp.learners.linear import refuse_contradictions
from labeldp.learners.models import (
    NETWORKS,
    Matrix,
    NetworkModel,
    NetworkOptions,
    Quality,
    input_columns,
)
from labeldp.learners.normal_equations import bag_members
from labeldp.mechanisms.base import BagLabels, RowLabels
from labeldp.passes.engine import Progress, quiet
from labeldp.releases.files import WANTS_TABLE, labelled_rows

if TYPE_CHECKING:
    import pyarrow as pa

    from labeldp.releases.files import Release

Array = NDArray[np.float64]

_ROUNDS = 10
_SCATTER = 5.0
"""Var r²/(E r²)² of Laplace noise; of Gaussian noise it is 2."""
_LEAST_VARIANCE = 1 / 400
"""Of the squared range, the smallest variance that labels are thought to have; 1/4 is the most."""
_DOUBT = 3.0
"""Deviations. Of releases that say next to nothing about a hundredth goes beyond."""


@dataclass(frozen=True, eq=False)
class WeightedBags:
    """Bag j holds the rows offsets[j] to offsets[j+1] and one label, Σ weight · (row's label)."""

    inputs: sparse.csr_array = field(repr=False)
    """A line of float32 for each row, without a constant: most are levels of categories."""
    weights: NDArray[np.float32] = field(repr=False)
    offsets: NDArray[np.int64] = field(repr=False)
    labels: Array = field(repr=False)
    features: FeatureMap | None = field(default=None, repr=False)
    """How raw rows become these (`input_columns` of the design); None of plain rows."""

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

    @cached_property
    def constants(self) -> Array:
        """What the function 1 contributes to each bag: Σ w."""
        return np.add.reduceat(self.weights.astype(np.float64), self.offsets[:-1])

    @cached_property
    def energies(self) -> Array:
        """Σ w² of each bag: what one unit of variance per row adds up to."""
        squares = np.square(self.weights, dtype=np.float64)
        return np.asarray(np.add.reduceat(squares, self.offsets[:-1]))

    @cached_property
    def energy_per_bag(self) -> float:
        """The mean of `energies`."""
        return float(np.mean(self.energies)) or 1.0

    @classmethod
    def of_rows(
        cls, inputs: Any, labels: Array, features: FeatureMap | None = None
    ) -> WeightedBags:
        """Return every row of a matrix as a bag of weight 1."""
        design = sparse.csr_array(inputs, dtype=np.float32)
        rows = design.shape[0]
        return cls(design, np.ones(rows, np.float32), np.arange(rows + 1), labels, features)

    @classmethod
    def from_release(cls, release: Release, source: Source | None) -> WeightedBags:
        """Return what a release teaches a network; rows that it names are read from the source.

        Labels of the source are not read.
        """
        model, features, labels = release.label_model, release.features, release.labels
        if isinstance(model, RowLabels):
            parts = [_inputs(features, batch) for batch, _ in labelled_rows(release, source)]
            return cls.of_rows(sparse.vstack(parts, format="csr"), labels, features)
        if not isinstance(model, BagLabels):
            raise InputError(
                "a network cannot be learnt from aggregated features, because f(Σ w x) is not "
                "Σ w f(x); fit a linear model, or release with the mechanism "
                "sampled-noisy-wtd-lag or noisy-rows"
            )
        if source is None:
            raise InputError(WANTS_TABLE)
        bag, row, weight = bag_members(model.bags, len(labels))
        order = np.argsort(bag, kind="stable")
        wanted, places = np.unique(row[order], return_inverse=True)
        batches = take_rows(source, features.columns, wanted, features.rows)
        inputs = sparse.vstack([_inputs(features, batch) for _, batch in batches], format="csr")
        offsets = np.concatenate([[0], np.cumsum(np.bincount(bag, minlength=len(labels)))])
        return cls(inputs[places], weight[order].astype(np.float32), offsets, labels, features)


def _inputs(features: FeatureMap, batch: pa.RecordBatch) -> sparse.csr_array:
    """Return the inputs of a network for the rows of a batch."""
    design = features.integers(features.encode(batch)) * features.kept_scales
    return sparse.csr_array(design[:, input_columns(features)].astype(np.float32))


# --- fitting ---


def fit_release(
    release: Release,
    source: Source | None,
    options: NetworkOptions,
    progress: Progress | None = None,
) -> NetworkModel:
    """Return the fit of the bags of a release, whose rows the source holds.

    Where every row has a label, it is a bag. The noise of labels is known, so that networks are
    averaged and shrunk, unless options say no.
    """
    with refuse_contradictions():
        if not np.isfinite(release.labels).all():
            raise InputError("the release holds labels that are not finite; get the original")
        bags = WeightedBags.from_release(release, source)
        low, high = release.certificate["label_range"]
        label_range = float(low), float(high)
    averages = options.shrink is not False and bags.bags > 1
    if averages:
        standard = standardise_labels(bags, release.noise, label_range)
    else:
        standard = centre_labels(bags)
    model = _fit(*standard, options, progress, averages=averages)
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
    bags = WeightedBags.of_rows((rows - centre) / spread, labels)
    model = _fit(*centre_labels(bags), options, progress, averages=False)
    return replace(model, centre=centre.tolist(), spread=spread.tolist(), feature_names=names)


def _fit(
    bags: WeightedBags,
    shift: float,
    scale: float,
    options: NetworkOptions,
    progress: Progress | None,
    *,
    averages: bool,
) -> NetworkModel:
    """Return f = shift + scale·g, g a network of these bags, or the mean of several.

    The average is of networks that have not seen different labels, as far as these support it:
    all labels together judge, each the network that neither learnt from it nor stopped by it.
    """
    try:
        from labeldp.learners import training
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise MissingExtraError("the neural learner", "torch") from None
    epochs = options.epochs * (NETWORKS if averages else 1)
    with (progress or quiet)("epochs", epochs) as advance:
        networks = training.train(bags, options, advance, in_parts=averages)
    matrices, share, quality = networks[0].matrices, None, None
    if averages:
        held_out = np.concatenate([network.held_out for network in networks])
        outputs = np.concatenate([network.held_out_sums() for network in networks])
        share, gain, gain_error = score_held_out(bags.labels[held_out], outputs)
        matrices = average_networks([network.matrices for network in networks], share)
        # Per row: as a share of the labels' variance, and in squared label units.
        energy, variance = bags.energy_per_bag * bags.bags, scale**2
        r2, r2_error = gain / energy, gain_error / energy
        quality = Quality(variance * r2, variance * r2_error, r2, r2_error)
    losses = zip(*(network.losses for network in networks), strict=True)
    validation = zip(*(network.validation_losses for network in networks), strict=True)
    return NetworkModel(
        options=options,
        layers=matrices,
        features=bags.features,
        shift=shift,
        scale=scale,
        losses=[scale**2 * float(np.mean(epoch)) for epoch in losses],
        validation_losses=[scale**2 * float(np.mean(epoch)) for epoch in validation],
        best_epoch=max(network.best_epoch for network in networks),
        feature_names=None if bags.features is None else bags.features.names,
        share=share,
        quality=quality,
    )


def centre_labels(bags: WeightedBags) -> tuple[WeightedBags, float, float]:
    """Return bags of equal weight for a network g, and shift and scale to f from it.

    It learns labels less the best constant, in units of the root mean square which that leaves per
    row. Aggregation is linear, Σ w f = shift·Σ w + scale·Σ w g, so nothing is lost at any scale.
    """
    constants = bags.constants
    square = float(constants @ constants)
    shift = float(constants @ bags.labels) / square if square > 0 else 0.0
    misses = bags.labels - shift * constants
    scale = math.sqrt(float(misses @ misses) / (bags.energy_per_bag * bags.bags)) or 1.0
    return replace(bags, labels=misses / scale), shift, scale


# --- labels whose noise is known ---


def standardise_labels(
    bags: WeightedBags, std: Array, label_range: tuple[float, float]
) -> tuple[WeightedBags, float, float]:
    """Return bags in which every label counts for what it tells, and shift and scale to f from g.

    Bag j has the label t_j = Σ w f(x) + residuals + noise. With noise of deviation s_j, which is
    public, and a residual variance v per row, its variance is s_j² + v·Σw². Divided by its root,
    every label has variance 1, and least squares weighs it by what it tells: the deviations of
    sampled-noisy-wtd-LAg differ by a factor of a thousand. The shift is the best constant, the
    scale the deviation √v of single labels about it.
    """
    constants, energies = bags.constants, bags.energies
    # The range is the prior: labels spread evenly have the middle as mean and Δ²/12 as variance.
    # Few noisy labels move neither far from there.
    low, high = label_range
    middle, prior = (low + high) / 2, (high - low) ** 2 / 12
    least, most = _LEAST_VARIANCE * (high - low) ** 2, (high - low) ** 2 / 4
    about_middle = bags.labels - middle * constants
    shift, variance = middle, prior
    for _ in range(_ROUNDS):
        precision = 1 / (std**2 + variance * energies)
        weights = precision * constants
        mean_precision = float(weights @ constants)
        shift = middle + float(weights @ about_middle) / (mean_precision + 1 / prior)
        above = (bags.labels - shift * constants) ** 2 - std**2
        information = float(np.sum((precision * energies) ** 2))  # E above = variance·energies
        moment = float((precision**2 * energies) @ above) / information
        variance = (moment * information / _SCATTER + 1 / prior) / (
            information / _SCATTER + 1 / prior**2
        )
        variance = float(np.clip(variance, least, most))
    scale, spread = math.sqrt(variance), np.sqrt(std**2 + variance * energies)
    row_weights = bags.weights * (scale / np.repeat(spread, bags.lengths))
    standardised = replace(
        bags,
        weights=row_weights.astype(np.float32),
        labels=(bags.labels - shift * constants) / spread,
    )
    return standardised, shift, scale


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
