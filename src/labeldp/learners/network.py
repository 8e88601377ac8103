"""`NetworkModel`: a ReLU network learnt from weighted bags; torch is imported only to train."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields, replace
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.data.source import Source
from labeldp.display import ReprMixin
from labeldp.errors import InputError, MissingExtraError
from labeldp.features.feature_map import FeatureMap
from labeldp.io_util import is_count, is_number, is_positive, is_text, list_of, optional
from labeldp.learners.bags import WeightedBags
from labeldp.learners.inputs import Inputs
from labeldp.learners.layers import Layers, Matrix, averaged
from labeldp.learners.noise import Judged, LabelNoise, judged, standardised
from labeldp.learners.protocol import (
    Array,
    Arrays,
    Coefficient,
    Document,
    Learner,
    bag_source,
    checked,
    is_range,
    sound,
    write,
)
from labeldp.learners.quality import Quality
from labeldp.learners.settings import Settings
from labeldp.passes.protocol import Progress, quiet

if TYPE_CHECKING:
    from labeldp.release.files import Release


@dataclass(frozen=True, eq=False, repr=False)
class NetworkModel(ReprMixin):
    """All of a fitted network; what the fields are stands at `BagRegressor`."""

    options: Settings
    layers: Layers
    features: FeatureMap | None
    input: str
    """How rows become inputs: "codes" or "design" of the feature map, or "columns" of an array."""
    shift: float
    scale: float
    losses: list[float]
    validation_losses: list[float]
    best_epoch: int
    row_norm: float | None
    centre: list[float] | None
    spread: list[float] | None
    feature_names: tuple[str, ...] | None
    share: float | None = None
    quality: Quality | None = None
    label_range: tuple[float, float] | None = None

    def _repr_facts(self) -> tuple[str, Iterable[tuple[str, str]]]:
        widths = " × ".join(str(len(matrix)) for matrix in self.layers.matrices)
        facts = (
            ("columns", f"{self.width:,}"),
            ("layers", widths),
            ("epochs", f"{len(self.losses)}, the best was {self.best_epoch}"),
        )
        return ("Network", facts)

    @property
    def width(self) -> int:
        """Columns of an array, or design columns of the feature map."""
        return self.layers.numbers if self.feature_names is None else len(self.feature_names)

    @property
    def takes_array(self) -> bool:
        return self.input == "columns"

    @property
    def coefficients(self) -> tuple[Coefficient, ...]:
        """None: a network is not linear."""
        return ()

    def predict(self, rows: Any) -> Array:
        """Predictions for raw rows or, without a feature map, for an array."""
        predictions = self.shift + self.scale * self._values(rows)
        if self.label_range is None or not self.options.clip:
            return predictions
        return np.asarray(np.clip(predictions, *self.label_range))

    def summary(self, bags: int) -> str:
        """What people want to know of it."""
        told = f"a network was fitted on {bags:,} bags in {len(self.losses)} epochs"
        if self.quality is None:
            return told
        if not self.share:
            return (
                f"{told}; labels held back show no gain over the constant, which is predicted\n"
                "a linear fit may find more"
            )
        return (
            f"{told}, {self.options.folds} times; {self.share:.0%} of their mean is predicted\n"
            f"mean squared error below the constant's by {self.quality.gain:.4g} ± "
            f"{self.quality.gain_error:.2g}, by labels held back"
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one NumPy .npz."""
        if self.input == "codes" and self.features is None:
            raise InputError("the bags had no feature map, so the model could not be used again")
        document = {
            "category_sizes": list(self.layers.sizes),
            "layers": len(self.layers.matrices),
            **{name: getattr(self, name) for name in _FIELDS},
            "quality": None if self.quality is None else self.quality.to_json(),
        }
        matrices = {f"layer_{index}": matrix for index, matrix in enumerate(self.layers.matrices)}
        write(path, LEARNER, self, document, matrices)

    def _values(self, rows: Any) -> Array:
        """g of the rows."""
        if self.takes_array:
            return self.layers.of_numbers((rows - np.array(self.centre)) / np.array(self.spread))
        if self.features is None:
            raise InputError("the bags had no feature map, so raw rows cannot be encoded")
        if self.input == "codes":
            batches = Inputs.of(self.features).batches(rows)
            return np.concatenate([np.empty(0), *(self.layers.values(*rows) for rows in batches)])
        design, constant = self.features.design(rows), self.features.constant
        return self.layers.of_numbers(
            design if constant is None else np.delete(design, constant, axis=1)
        )


def fit_release(
    release: Release, source: Source | None, settings: Settings, progress: Progress | None = None
) -> NetworkModel:
    """Fit the bags of a release, whose rows the source holds, or its aggregates (linear only).

    Where every row has a label, it is a bag. Networks on labels whose noise is known are averaged
    and shrunk, unless they are asked not to be.
    """
    settings = settings.checked()
    with sound():
        bags = _bags(release, source)
        low, high = release.certificate["label_range"]
        public = (float(low), float(high))
    if bags.aggregated and settings.shrink:
        raise InputError("`shrink=True` needs rows or bags of rows, not aggregates; leave it out")
    wanted = not (bags.aggregated or settings.one_network or bags.bags < 2)
    if wanted if settings.shrink is None else settings.shrink:
        model = _fit_noisy(bags, LabelNoise(release.noise, public), settings, progress)
    else:
        model = fit_bags(bags, settings, progress)
    return replace(model, label_range=public)


def _bags(release: Release, source: Source | None) -> WeightedBags:
    """What a release teaches."""
    from labeldp.learners.rows import single_rows  # late: a model predicts without these
    from labeldp.release.label_model import BagLabels, RowLabels

    meaning = release.meaning
    if isinstance(meaning, RowLabels):
        return single_rows(release, source)
    if isinstance(meaning, BagLabels):
        rows = bag_source(source)
        return WeightedBags.from_source(release.features, rows, meaning.bags, release.labels)
    return WeightedBags.from_aggregates(release.design, release.labels, release.features)


def fit_rows(
    rows: Array,
    labels: Array,
    settings: Settings,
    names: tuple[str, ...] | None,
    progress: Progress | None = None,
) -> NetworkModel:
    """Fit plain rows, standardised column by column."""
    centre, spread = rows.mean(axis=0), rows.std(axis=0)
    spread[spread <= 1e-12 * np.abs(centre)] = 1.0  # constant, but for rounding
    bags = WeightedBags.from_arrays((rows - centre) / spread, labels)
    return _train(bags, settings, progress, "columns", names, (centre, spread))


def fit_bags(
    bags: WeightedBags, settings: Settings, progress: Progress | None = None
) -> NetworkModel:
    """Fit any bags."""
    return _train(bags, settings, progress, *_inputs(bags, settings))


def _inputs(
    bags: WeightedBags, settings: Settings
) -> tuple[str, tuple[str, ...] | None, tuple[Array, Array] | None]:
    """How rows become inputs, the names of columns, and what standardises an array."""
    if bags.aggregated and settings.hidden:
        raise InputError(
            "a network with hidden layers cannot be fitted on aggregated features, because "
            "f(Σ w x) is not Σ w f(x): set hidden=(), or use a release that keeps the rows of "
            "its bags (sampled-noisy-wtd-lag)"
        )
    if bags.features is None and not bags.category_sizes:
        width = bags.numbers.shape[1]
        return "columns", None, (np.zeros(width), np.ones(width))
    names = None if bags.features is None else bags.features.names
    return "design" if bags.aggregated else "codes", names, None


def _fit_noisy(
    bags: WeightedBags, noise: LabelNoise, settings: Settings, progress: Progress | None
) -> NetworkModel:
    """The mean of networks that have not seen different labels, as much of it as these support.

    Labels weigh by what they tell. All of them together judge, each the network that neither
    learnt from it nor stopped by it: post-processing, like everything after a release.
    """
    training, standard = _training(), standardised(bags, noise)
    units = standard.bags.units(scaled=False)
    with (progress or quiet)("epochs", settings.epochs * settings.folds) as advance:
        networks = training.train_parts(standard.bags, units, settings, advance)
    held = np.concatenate([each.held for each in networks])
    verdict = judged(standard.bags.labels[held], np.concatenate([n.outputs for n in networks]))
    square = standard.scale**2
    input, names, _ = _inputs(bags, settings)
    return NetworkModel(
        options=settings,
        layers=Layers(
            bags.category_sizes, averaged([each.matrices for each in networks], verdict.share)
        ),
        features=bags.features,
        input=input,
        shift=standard.shift,
        scale=standard.scale,
        losses=_means([each.losses for each in networks], square),
        validation_losses=_means([each.validation_losses for each in networks], square),
        best_epoch=max(each.best_epoch for each in networks),
        row_norm=bags.row_norm,
        centre=None,
        spread=None,
        feature_names=names,
        share=verdict.share,
        quality=_quality(verdict, square, units.energy),
    )


def _quality(verdict: Judged, variance: float, energy: float) -> Quality:
    """The verdict per row, in squared label units and as a share of the labels' variance."""
    r2, error = verdict.gain / energy, verdict.gain_error / energy
    return Quality(variance * r2, variance * error, r2, error)


def _means(losses: list[list[float]], unit: float) -> list[float]:
    """Per epoch, of the networks that were still trained."""
    last = max(map(len, losses))
    return [
        unit * float(np.mean([each[n] for each in losses if n < len(each)])) for n in range(last)
    ]


def _train(
    bags: WeightedBags,
    settings: Settings,
    progress: Progress | None,
    input: str,
    names: tuple[str, ...] | None,
    standard: tuple[Array, Array] | None = None,
) -> NetworkModel:
    settings = settings.checked()
    training = _training()
    units = bags.units(scaled=settings.scale_labels)
    with (progress or quiet)("epochs", settings.epochs) as advance:
        trained = training.train(bags, units, settings, advance)
    square = units.scale**2
    centre, spread = (None, None) if standard is None else (part.tolist() for part in standard)
    return NetworkModel(
        options=settings,
        layers=Layers(bags.category_sizes, trained.matrices),
        features=bags.features,
        input=input,
        shift=units.shift,
        scale=units.scale,
        losses=[loss * square for loss in trained.losses],
        validation_losses=[loss * square for loss in trained.validation_losses],
        best_epoch=trained.best_epoch,
        row_norm=bags.row_norm,
        centre=centre,
        spread=spread,
        feature_names=names,
    )


def _training() -> Any:
    """The module that trains, which needs torch."""
    try:
        from labeldp.learners import training
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "torch":
            raise
        raise MissingExtraError("the neural learner", "torch") from None
    return training


_FIELDS = {
    "input": lambda value: value in ("codes", "design", "columns"),
    "shift": is_number,
    "scale": is_positive,
    "losses": list_of(is_number),
    "validation_losses": list_of(is_number),
    "best_epoch": is_count,
    "row_norm": optional(is_number),
    "centre": optional(list_of(is_number)),
    "spread": optional(list_of(is_positive)),
    "feature_names": optional(list_of(is_text)),
    "share": optional(is_number),
    "quality": optional(lambda value: isinstance(value, dict)),
    "label_range": optional(is_range),
}


def _read(document: Document, features: FeatureMap | None, arrays: Arrays) -> NetworkModel:
    values = checked(document, _FIELDS)
    parameters = {each.name: document["parameters"][each.name] for each in fields(Settings)}
    options = Settings(**parameters).checked()
    matrices = tuple(_matrix(arrays[f"layer_{index}"]) for index in range(document["layers"]))
    outputs = [matrix.shape[1] for matrix in matrices]
    inputs = [len(matrix) - 1 for matrix in matrices]
    beside = 1 if values["share"] is None else outputs[0] / (*options.hidden, 1)[0]
    if outputs != [*(beside * width for width in options.hidden), 1] or inputs[1:] != outputs[:-1]:
        raise ValueError("the layers do not fit together")
    names, ends, found = (values.pop(n) for n in ("feature_names", "label_range", "quality"))
    model = NetworkModel(
        options=options,
        layers=Layers(tuple(document["category_sizes"]), matrices),
        features=features,
        feature_names=None if names is None else tuple(names),
        label_range=None if ends is None else (float(ends[0]), float(ends[1])),
        quality=None if found is None else Quality.from_json(found),
        **values,
    )
    _check_inputs(model)
    return model


def _matrix(matrix: Any) -> Matrix:
    if matrix.dtype != np.float32 or matrix.ndim != 2 or not np.isfinite(matrix).all():
        raise ValueError("a layer is not a matrix of finite float32")
    return np.ascontiguousarray(matrix)


def _check_inputs(model: NetworkModel) -> None:
    """The rows that the model takes must be as wide as its first layer."""
    sizes: tuple[int, ...] = ()
    if (model.features is None) != model.takes_array:
        raise ValueError("features do not fit the input")
    if model.features is None:
        numbers = len(model.centre or ())
        if not numbers == len(model.spread or ()) == len(model.feature_names or [""] * numbers):
            raise ValueError("the columns differ in number")
    elif model.input == "design":
        numbers = len(model.features.names) - (model.features.constant is not None)
    else:
        inputs = Inputs.of(model.features)
        sizes, numbers = inputs.sizes, len(inputs.numbers)
    if sizes != model.layers.sizes or numbers != model.layers.numbers:
        raise ValueError("the layers do not fit the columns")


LEARNER = Learner(
    name="neural",
    format="labeldp.bag-regressor",
    options=Settings,
    fit=fit_release,
    read=_read,
    reads_rows=True,
)
