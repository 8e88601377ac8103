"""Fit a ReLU network to weighted bags: of a release, of one's own, or of plain rows.

Where the noise of labels is public, networks are averaged and shrunk:
    1. every label is divided by its deviation, so that it counts for what it tells
                                                                  -> `standardise_labels`
    2. a network for each part of the bags is trained on the others -> `training.train_parts`
    3. labels that a network has not seen say how much of it to keep -> `score_held_out`
All of it is post-processing of a release. torch is imported only to train.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from labeldp.data.source import Source
from labeldp.errors import InputError, MissingExtraError
from labeldp.learners.bags import WeightedBags
from labeldp.learners.layers import Layers, average_networks
from labeldp.learners.linear import refuse_contradictions
from labeldp.learners.models import NetworkModel, NetworkOptions, Quality
from labeldp.passes.engine import Progress, quiet

if TYPE_CHECKING:
    from labeldp.release.files import Release

Array = NDArray[np.float64]


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
    options = options.checked()
    with refuse_contradictions():
        bags = WeightedBags.from_release(release, source)
        low, high = release.certificate["label_range"]
        label_range = float(low), float(high)
    if bags.aggregated and options.shrink:
        raise InputError("`shrink=True` needs rows or bags of rows, not aggregates; leave it out")
    averages = options.shrink
    if averages is None:
        averages = not (bags.aggregated or options.one_network or bags.bags < 2)
    if averages:
        noise = LabelNoise(release.noise, label_range)
        model = _fit_average(bags, noise, options, progress)
    else:
        model = fit_bags(bags, options, progress)
    return replace(model, label_range=label_range)


def fit_rows(
    rows: Array,
    labels: Array,
    options: NetworkOptions,
    names: tuple[str, ...] | None,
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
    options = options.checked()
    _check_layers(bags, options)
    training = _training()
    units = bags.units(scaled=options.scale_labels)
    with (progress or quiet)("epochs", options.epochs) as advance:
        network = training.train(bags, units, options, advance)
    square = units.scale**2
    return NetworkModel(
        options=options,
        layers=Layers(bags.category_sizes, network.matrices),
        shift=units.shift,
        scale=units.scale,
        losses=[loss * square for loss in network.losses],
        validation_losses=[loss * square for loss in network.validation_losses],
        best_epoch=network.best_epoch,
        **_input_fields(bags),
    )


def _check_layers(bags: WeightedBags, options: NetworkOptions) -> None:
    if bags.aggregated and options.hidden:
        raise InputError(
            "a network with hidden layers cannot be fitted on aggregated features, because "
            "f(Σ w x) is not Σ w f(x): set hidden=(), or use a release that keeps the rows of "
            "its bags (sampled-noisy-wtd-lag)"
        )


def _input_fields(bags: WeightedBags) -> dict[str, Any]:
    """Return the fields of a model that say how rows become its inputs."""
    fields: dict[str, Any] = {
        "features": bags.features,
        "row_norm": bags.row_norm,
        "centre": None,
        "spread": None,
        "feature_names": None if bags.features is None else bags.features.names,
        "input": "design" if bags.aggregated else "codes",
    }
    if bags.features is None and not bags.category_sizes:
        width = bags.numbers.shape[1]
        fields |= {"input": "columns", "centre": [0.0] * width, "spread": [1.0] * width}
    return fields


def _training() -> Any:
    """Return the module that trains, which needs torch."""
    try:
        from labeldp.learners import training
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise MissingExtraError("the neural learner", "torch") from None
    return training


# --- labels whose noise is known ---

_ROUNDS = 10
_SCATTER = 5.0
"""Var r²/(E r²)² of Laplace noise; of Gaussian noise it is 2."""
_LEAST_VARIANCE = 1 / 400
"""Of the squared range, the smallest variance that labels are thought to have; 1/4 is the most."""
_DOUBT = 3.0
"""Deviations. Of releases that say next to nothing about a hundredth goes beyond."""


@dataclass(frozen=True, eq=False)
class LabelNoise:
    """What is public of the labels of bags."""

    std: Array = field(repr=False)
    """Of each bag's noise."""
    label_range: tuple[float, float]
    """Of the labels of rows."""


@dataclass(frozen=True, eq=False)
class StandardisedBags:
    """f = shift + scale·g, and bags for g whose labels have variance 1."""

    bags: WeightedBags
    shift: float
    """The best constant."""
    scale: float
    """The deviation of single labels about it, without noise."""


def standardise_labels(bags: WeightedBags, noise: LabelNoise) -> StandardisedBags:
    """Return bags in which every label counts for what it tells.

    Bag j has the label t_j = Σ w f(x) + residuals + noise. With noise of deviation s_j, which is
    public, and a residual variance v per row, its variance is s_j² + v·Σw². Divided by its root,
    every label has variance 1, and least squares weighs it by what it tells: the deviations of
    sampled-noisy-wtd-LAg differ by a factor of a thousand.
    """
    squares = np.square(bags.weights, dtype=np.float64)
    energy = np.asarray(np.add.reduceat(squares, bags.offsets[:-1]))  # Σw² of each bag
    shift, variance = _label_moments(bags, noise, energy)
    scale, spread = math.sqrt(variance), np.sqrt(noise.std**2 + variance * energy)
    weights = bags.weights * (scale / np.repeat(spread, bags.lengths))
    standardised = replace(
        bags,
        weights=weights.astype(np.float32),
        labels=(bags.labels - shift * bags.constants) / spread,
        constants=bags.constants * scale / spread,
    )
    return StandardisedBags(standardised, shift, scale)


def _label_moments(bags: WeightedBags, noise: LabelNoise, energy: Array) -> tuple[float, float]:
    """Return the best constant and the variance of labels about it, the range being the prior.

    Labels spread evenly have the middle as mean and Δ²/12 as variance: few noisy labels move
    neither far from there.
    """
    low, high = noise.label_range
    middle, prior = (low + high) / 2, (high - low) ** 2 / 12
    about_middle = bags.labels - middle * bags.constants
    shift, variance = middle, prior
    for _ in range(_ROUNDS):
        precision = 1 / (noise.std**2 + variance * energy)
        weights = precision * bags.constants
        mean_precision = float(weights @ bags.constants)
        shift = middle + float(weights @ about_middle) / (mean_precision + 1 / prior)
        above = (bags.labels - shift * bags.constants) ** 2 - noise.std**2
        information = float(np.sum((precision * energy) ** 2))  # E above = variance·energy
        moment = float((precision**2 * energy) @ above) / information
        variance = (moment * information / _SCATTER + 1 / prior) / (
            information / _SCATTER + 1 / prior**2
        )
        least, most = _LEAST_VARIANCE * (high - low) ** 2, (high - low) ** 2 / 4
        variance = float(np.clip(variance, least, most))
    return shift, variance


@dataclass(frozen=True)
class HeldOutScore:
    """What labels that a network has not seen say of it, against the constant."""

    share: float
    """How much of its predictions to keep, between 0 (the constant) and 1."""
    gain: float
    """By how much the sum of squares, in units of its noise, is less than the constant's."""
    gain_error: float


def score_held_out(labels: Array, outputs: Array) -> HeldOutScore:
    """Return the share α to keep, for labels = α·outputs + noise of variance 1: James and Stein's.

    z is by how many deviations the labels speak for the network. Those of one part taught the
    networks that the others judge, so that noise which several parts happen to share speaks for
    them as well: z has a longer tail than a normal number, and up to `_DOUBT` nothing is kept.
    """
    length = math.sqrt(float(outputs @ outputs))
    z = float(labels @ outputs) / length if length > 0 else 0.0
    if z <= _DOUBT:
        return HeldOutScore(0.0, 0.0, 0.0)
    share = min(1.0, z / length) * (1 - (_DOUBT / z) ** 2)
    gain = share * (2 * z - share * length) * length
    return HeldOutScore(share, gain, 2 * share * length)


def _fit_average(
    bags: WeightedBags, noise: LabelNoise, options: NetworkOptions, progress: Progress | None
) -> NetworkModel:
    """Return the mean of networks that have not seen different labels, as far as these support it.

    All labels together judge, each the network that neither learnt from it nor stopped by it.
    """
    training, standard = _training(), standardise_labels(bags, noise)
    units = standard.bags.units(scaled=False)
    with (progress or quiet)("epochs", options.epochs * options.folds) as advance:
        networks = training.train_parts(standard.bags, units, options, advance)
    held_out = np.concatenate([network.held_out for network in networks])
    outputs = np.concatenate([network.outputs for network in networks])
    score = score_held_out(standard.bags.labels[held_out], outputs)
    matrices = average_networks([network.matrices for network in networks], score.share)
    # Per row: in squared label units, and as a share of the labels' variance.
    square, r2, r2_error = (
        standard.scale**2,
        score.gain / units.energy,
        score.gain_error / units.energy,
    )
    return NetworkModel(
        options=options,
        layers=Layers(bags.category_sizes, matrices),
        shift=standard.shift,
        scale=standard.scale,
        losses=_mean_losses([network.losses for network in networks], square),
        validation_losses=_mean_losses([n.validation_losses for n in networks], square),
        best_epoch=max(network.best_epoch for network in networks),
        share=score.share,
        quality=Quality(square * r2, square * r2_error, r2, r2_error),
        **_input_fields(bags),
    )


def _mean_losses(losses: list[list[float]], unit: float) -> list[float]:
    """Return the mean per epoch over the networks that were still trained."""
    last = max(map(len, losses))
    return [
        unit * float(np.mean([each[epoch] for each in losses if epoch < len(each)]))
        for epoch in range(last)
    ]
