"""`NetworkModel`: a ReLU network learnt from weighted bags; torch is imported only to train."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from os import PathLike
from typing import TYPE_CHECKING, Any

import numpy as np

from labeldp.engines import Progress, quiet
from labeldp.errors import InputError, MissingExtraError
from labeldp.features import FeatureMap
from labeldp.files import is_count, is_number, is_positive, is_text, list_of, optional
from labeldp.learners.bags import WeightedBags
from labeldp.learners.inputs import Inputs
from labeldp.learners.layers import Layers, Matrix
from labeldp.learners.protocol import (
    Array,
    Arrays,
    Coefficient,
    Document,
    Learner,
    bag_source,
    checked,
    write,
)
from labeldp.learners.settings import Settings
from labeldp.source import Source

if TYPE_CHECKING:
    from labeldp.release import Release


@dataclass(frozen=True, eq=False)
class NetworkModel:
    """All of a fitted network; what the fields are stands at `BagRegressor`."""

    options: Settings
    layers: Layers = field(repr=False)
    features: FeatureMap | None = field(repr=False)
    input: str
    """How rows become inputs: "codes" or "design" of the feature map, or "columns" of an array."""
    shift: float
    scale: float
    losses: list[float] = field(repr=False)
    validation_losses: list[float] = field(repr=False)
    best_epoch: int
    row_norm: float | None
    centre: list[float] | None = field(repr=False)
    spread: list[float] | None = field(repr=False)
    feature_names: tuple[str, ...] | None = field(repr=False)

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
        return self.shift + self.scale * self._values(rows)

    def summary(self, bags: int) -> str:
        """One line for people."""
        return f"a network was fitted on {bags:,} bags in {len(self.losses)} epochs"

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model as one NumPy .npz."""
        if self.input == "codes" and self.features is None:
            raise InputError("the bags had no feature map, so the model could not be used again")
        document = {
            "category_sizes": list(self.layers.sizes),
            "layers": len(self.layers.matrices),
            **{name: getattr(self, name) for name in _FIELDS},
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

    Where every row has a label, it is a bag.
    """
    if release.holds_rows:
        from labeldp.learners.rows import single_rows  # late: a model predicts without it

        return fit_bags(single_rows(release, source), settings, progress)
    if release.aggregates_features:
        aggregates = WeightedBags.from_aggregates(release.design, release.labels, release.features)
        return fit_bags(aggregates, settings, progress)
    rows, table = bag_source(source), release.bag_table
    bags = WeightedBags.from_source(release.features, rows, table, release.labels)
    return fit_bags(bags, settings, progress)


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
    if bags.aggregated and settings.hidden:
        raise InputError(
            "a network with hidden layers cannot be fitted on aggregated features, because "
            "f(Σ w x) is not Σ w f(x): set hidden=(), or use a release that keeps the rows of "
            "its bags (sampled-noisy-wtd-lag)"
        )
    if bags.features is None and not bags.category_sizes:
        width = bags.numbers.shape[1]
        return _train(bags, settings, progress, "columns", None, (np.zeros(width), np.ones(width)))
    names = None if bags.features is None else bags.features.names
    return _train(bags, settings, progress, "design" if bags.aggregated else "codes", names)


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
}


def _read(document: Document, features: FeatureMap | None, arrays: Arrays) -> NetworkModel:
    values = checked(document, _FIELDS)
    parameters = {each.name: document["parameters"][each.name] for each in fields(Settings)}
    options = Settings(**parameters).checked()
    matrices = tuple(_matrix(arrays[f"layer_{index}"]) for index in range(document["layers"]))
    outputs = [matrix.shape[1] for matrix in matrices]
    inputs = [len(matrix) - 1 for matrix in matrices]
    if outputs != [*options.hidden, 1] or inputs[1:] != outputs[:-1]:
        raise ValueError("the layers do not fit together")
    names = values.pop("feature_names")
    model = NetworkModel(
        options=options,
        layers=Layers(tuple(document["category_sizes"]), matrices),
        features=features,
        feature_names=None if names is None else tuple(names),
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
