"""Logistic and Poisson regression on the releases that linear models are fitted to (theory §19).

Features are public. With a canonical link the log-likelihood is βᵀXᵀy − ΣA(x_iβ), so labels enter
by Xᵀy alone, of which the normal equations of a release give T̃ ~ N(Xᵀy, NNᵀ): T̃ = Rᵀb̃, N = RᵀE.
All that is done here is post-processing.

    1. T̃ and N of every release, and passes over the rows that it is about  -> `_parts`
    2. a pass over the rows at β: means m = A'(Xβ), weights w = A''(Xβ)      -> `ModelSums`
    3. working equations: with H = XᵀWX = LᵀL they are
       c̃ = Lβ + L⁻ᵀ(T̃ − Xᵀm), whose noise is L⁻ᵀN             -> `_working_equations`
    4. the posterior mean of theory §10 given c̃ is the next β; again from 2  -> `_settle`
    5. coefficients, errors and quality by the working equations of the last
       round, as of a linear fit                                             -> `fit_release`

Priors are those of the linear fit, on Rβ with RᵀR = XᵀX: in coordinates that do not move with the
weights. The first β is a constant.

Unshrunken coefficients are L⁻¹c̃, one step of Newton from β̂: they exist whatever the noise is, and
to first order are the coefficients that solve Xᵀm = T̃. Their errors are H⁻¹NNᵀH⁻¹ from privacy and
φH⁻¹ from sampling.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from threadpoolctl import threadpool_limits

from labeldp.data.source import Source
from labeldp.errors import DataError, InputError
from labeldp.exact.gram import GramAccumulator
from labeldp.features.encoder import Encoded
from labeldp.features.feature_map import FeatureMap
from labeldp.learners.fit_rules import FitRule, Range, posterior_mean, ridge
from labeldp.learners.linear import (
    column_effects,
    estimate_quality,
    linear_model,
    refuse_contradictions,
    release_facts,
)
from labeldp.learners.models import FAMILIES, GeneralizedLinearModel, GeneralizedOptions
from labeldp.learners.normal_equations import (
    Array,
    NoisyNormalEquations,
    NoisyValue,
    joint_columns,
    pool,
    release_equations,
)
from labeldp.mechanisms.base import RowLabels, SumLabels
from labeldp.passes.accumulator import PassRequirements
from labeldp.releases.files import model_rows
from labeldp.spark.engine import engine_for

if TYPE_CHECKING:
    from labeldp.passes.engine import Engine
    from labeldp.releases.files import Release

_BLOCK_ROWS = 4096
"""Rows that are made dense at once."""
_LEAST_WEIGHT = 1e-9
"""Of a row, so that H is invertible where classes are separated."""
_JITTER = 1e-13
_MOST_ROUNDS, _TOLERANCE = 40, 1e-4
"""Rounds end when Xβ moves by less in root mean square."""
_LONGEST_STEP = 1.0
"""Most that Xβ moves in a round, in root mean square."""
_NEWTON_ROUNDS, _NEAR, _HISTORY = 6, 0.2, 5
"""Later than this, or when Xβ moves by less, the next β follows from so many rounds together."""
_LINK_WIDTH = 5.0
"""Width of the range in which Xβ is expected: probabilities of 0.08 to 0.92."""
_LEAST_SHARE = 0.02
"""Of the label range, for the mean label at the start."""


# --- passes over rows ---


@dataclass(frozen=True, eq=False)
class ModelSums:
    """What rows add up to at some β."""

    moments: Array
    """Xᵀm."""
    information: Array
    """XᵀWX."""
    weight: float
    """Σw."""
    squares: float
    """Σm²."""

    def __add__(self, other: ModelSums) -> ModelSums:
        return ModelSums(
            *(getattr(self, each.name) + getattr(other, each.name) for each in fields(self))
        )


class ModelSumsAccumulator:
    """Accumulator of `ModelSums` over all rows.

    Sums are of doubles, so their last bits follow the order in which threads add: they serve
    learners alone, no guarantee.
    """

    def __init__(self, features: FeatureMap, family: str, coefficients: Array) -> None:
        """The coefficients are those of the map's kept columns, in its scales."""
        self._features, self._family, self._coefficients = features, family, coefficients
        columns = len(coefficients)
        self._total = ModelSums(np.zeros(columns), np.zeros((columns, columns)), 0.0, 0.0)

    @property
    def requirements(self) -> PassRequirements:
        state_bytes = 16 * self._total.information.size
        return PassRequirements(self._features.columns, self._features, state_bytes=state_bytes)

    def new(self) -> ModelSumsAccumulator:
        return ModelSumsAccumulator(self._features, self._family, self._coefficients)

    def add(self, batch: Encoded, *_: object) -> None:
        for start in range(0, batch.rows, _BLOCK_ROWS):
            rows = batch.take(slice(start, start + _BLOCK_ROWS))
            design = self._features.integers(rows) * self._features.kept_scales
            self._total += rows_sums(design, self._family, self._coefficients)

    def state(self) -> ModelSums:
        return self._total

    def merge(self, state: ModelSums) -> None:
        self._total += state

    def result(self, *_: object) -> ModelSums:
        return self._total


def rows_sums(design: Array, family: str, coefficients: Array) -> ModelSums:
    """Return the sums over some rows of the design."""
    means = FAMILIES[family].mean(design @ coefficients)
    weights = np.maximum(FAMILIES[family].variance(means), _LEAST_WEIGHT)
    weighted = design * np.sqrt(weights)[:, None]
    return ModelSums(
        means @ design, weighted.T @ weighted, float(weights.sum()), float(means @ means)
    )


# --- what releases say ---


@dataclass(frozen=True, eq=False)
class Part:
    """A release: T̃ ~ N(Xᵀy, NNᵀ) for the rows of its table."""

    moments: Array
    """T̃, of labels in units of the family."""
    noise: Array = field(repr=False)
    """N."""
    equations: NoisyNormalEquations = field(repr=False)
    """Its linear normal equations."""
    change: Array = field(repr=False)
    """What turns coefficients of the model into those of the release's own columns."""
    sums: Callable[[Array], ModelSums] = field(repr=False)
    """A pass over its rows, at coefficients of its own columns."""

    @classmethod
    def of(
        cls,
        equations: NoisyNormalEquations,
        label_range: Range,
        change: Array,
        sums: Callable[[Array], ModelSums],
    ) -> Part:
        """Return the part whose labels count from the low end, in widths of this range."""
        low, high = label_range
        root, moments = equations.root, equations.root.T @ equations.estimate
        if low:
            assert equations.constant is not None  # `_unit_range` has checked it
            moments = moments - low * (root.T @ root[:, equations.constant])
        width = high - low
        return cls(moments / width, root.T @ equations.spread / width, equations, change, sums)


def _parts(
    releases: Sequence[Release],
    tables: Sequence[Any],
    family: str,
    options: GeneralizedOptions,
    engine: Engine | None,
) -> tuple[list[Part], FeatureMap]:
    """Return the parts of the releases and the map of the model's columns (step 1)."""
    changes, features = [np.eye(len(releases[0].features.names))], releases[0].features
    if len(releases) > 1:
        changes, features = joint_columns(releases)
    if options.columns is not None:
        features, chosen = features.select(options.columns)
        changes = [change[:, chosen] for change in changes]
    parts = []
    for release, table, change in zip(releases, tables, changes, strict=True):
        if not isinstance(release.label_model, SumLabels | RowLabels):
            raise InputError(
                f"a {family} fit needs a release whose noise is public, as of shaped-flag and "
                f"noisy-rows; that of {release.certificate['mechanism']} is not: fit a linear model"
            )
        source = model_rows(release, table)
        every = np.ones(len(release.features.names), dtype=bool)
        equations = release_equations(release, source, every)
        label_range = _unit_range(family, release, equations)
        sums = _passes(release, source, family, engine or engine_for(source))
        parts.append(Part.of(equations, label_range, change, sums))
    return parts, features


def _unit_range(family: str, release: Release, equations: NoisyNormalEquations) -> Range:
    """Return what the family counts as 0 and 1 among the labels of a release."""
    low, high = map(float, release.certificate["label_range"])
    if family == "poisson":
        if low < 0 or high < 1:
            raise InputError(
                f"counts are 0 or more, and the label range of the release is {low:g} to {high:g}; "
                "fit a linear model"
            )
        return 0.0, 1.0
    if low and equations.constant is None:
        raise InputError("a logistic fit without a constant needs labels of 0 and 1")
    return low, high


def _passes(
    release: Release, source: Source, family: str, engine: Engine
) -> Callable[[Array], ModelSums]:
    """Return what makes passes; the first one checks that these are the rows of the release."""
    features, checked = release.features, False

    def sums(coefficients: Array) -> ModelSums:
        nonlocal checked
        accumulator = ModelSumsAccumulator(features, family, coefficients)
        task = f"{family} fit"
        with threadpool_limits(1, "blas"):  # the engine has threads of its own
            if checked:
                return engine.run_pass(task, source, accumulator)
            total, gram = engine.run_pass(task, source, accumulator, GramAccumulator(features))
        if gram.digest() != release.certificate["digests"]["feature_sums"]:
            raise DataError(
                "the data are not those that the release was made from: their feature sums "
                "differ; give the table that it was made from"
            )
        checked = True
        return total  # type: ignore[no-any-return]

    return sums


# --- the fit ---


def fit_release(
    releases: Sequence[Release],
    tables: Sequence[Any],
    family: str,
    options: GeneralizedOptions,
    engine: Engine | None = None,
) -> GeneralizedLinearModel:
    """Return the logistic or Poisson fit of releases of different rows, each with its table.

    No label of a table is read. A release with features of its own needs no table (None).
    """
    if not releases:
        raise InputError("there is no release to fit; give one or more")
    with refuse_contradictions():
        facts = release_facts(releases)
        parts, features = _parts(releases, tables, family, options, engine)
        ends = np.array([each.certificate["label_range"] for each in releases], dtype=np.float64)
        label_range = float(ends[:, 0].min()), float(ends[:, 1].max())
        high = math.log(label_range[1]) if family == "poisson" else _LINK_WIDTH / 2
        equations, rule = _settle(
            parts, family, (high - _LINK_WIDTH, high), features.degrees, shrink=options.shrink
        )
        model = linear_model(equations, rule, options, *features.to_original_units())
        return GeneralizedLinearModel(
            **vars(model)
            | {
                "features": features,
                "feature_names": features.names,
                "label_range": label_range,
                # Of the residual only the dispersion is known, which is no R².
                "quality": estimate_quality(replace(equations, residual_ss=None), rule),
                "releases": facts,
                "effects": column_effects(features, equations, rule),
            },
            family=family,
            classes=release_classes(releases) if family == "logistic" else None,
        )


def release_classes(releases: Sequence[Release]) -> NDArray[Any]:
    """Return the classes that releases remember, or else the ends of their label range."""
    found = [each.certificate["labels"].get("classes") for each in releases]
    ends = [each.certificate["label_range"] for each in releases]
    if any(each != found[0] for each in found) or any(each != ends[0] for each in ends):
        raise InputError("the releases do not go together: they differ in their two classes")
    return np.array(found[0] or ends[0])


def _settle(
    parts: Sequence[Part], family: str, link_range: Range, degrees: Sequence[int], *, shrink: bool
) -> tuple[NoisyNormalEquations, FitRule]:
    """Return the working equations at the β that they give, and the rule that gave it (step 4).

    Near the end rounds shrink the distance by a constant factor, or circle, because the strength
    of the prior moves with β. Anderson's method finds the fixed point from several of them.
    """
    first = parts[0]
    roots = [part.equations.root @ part.change for part in parts]
    root = np.asarray(np.linalg.qr(np.concatenate(roots), mode="r"))  # RᵀR of all rows
    rows = sum(part.equations.rows or 0 for part in parts)
    beta = np.zeros(root.shape[1])
    if first.equations.constant is not None:
        place = int(np.argmax(first.change[first.equations.constant]))
        total = sum(float(part.moments[part.equations.constant or 0]) for part in parts)
        most = 1.0 if family == "logistic" else math.exp(link_range[1])
        ends = _LEAST_SHARE * most, (1 - _LEAST_SHARE) * most
        beta[place] = FAMILIES[family].link(float(np.clip(total / rows, *ends)))
    targets, moves = list[Array](), list[Array]()
    least = math.inf
    for number in range(1, _MOST_ROUNDS + 1):
        sums = [part.sums(part.change @ beta) for part in parts]
        equations = _working_equations(parts, sums, beta, family)
        rule, turn = _next_rule(equations, root, link_range, degrees, shrink=shrink)
        targets.append(rule.coefficients)
        moves.append(root @ (rule.coefficients - beta))
        size = float(np.linalg.norm(moves[-1])) / math.sqrt(rows)
        if size < least:
            info = {"rule": rule.info["rule"], "family": family, "rounds": number} | rule.info
            if (dispersion := _dispersion(parts, sums, family)) is not None:
                info["dispersion"] = dispersion
            least, best = size, (equations, replace(_in_coordinates(rule, turn), info=info))
        if size < _TOLERANCE:
            break
        step = rule.coefficients - beta
        if number > 1 and (size < _NEAR or number > _NEWTON_ROUNDS):
            last = slice(-_HISTORY, None)
            change = np.diff(np.array(moves[last]), axis=0).T
            weights = np.linalg.lstsq(change, moves[-1], rcond=1e-8)[0]
            step = step - np.diff(np.array(targets[last]), axis=0).T @ weights
        length = float(np.linalg.norm(root @ step)) / math.sqrt(rows)
        beta = beta + step * min(1.0, _LONGEST_STEP / length)
    if least < _NEAR:  # where rounds go on circling, the one that moved least
        return best
    raise InputError(
        f"the {family} fit does not settle in {_MOST_ROUNDS} rounds: the noise is too large or the "
        "classes are separated; fit a linear model" + ", or leave `shrink=False` out" * (not shrink)
    )


def _working_equations(
    parts: Sequence[Part], sums: Sequence[ModelSums], beta: Array, family: str
) -> NoisyNormalEquations:
    """Return c̃ ~ N(Lβ, …) of all parts, in their metric H = LᵀL (step 3).

    The residual is that of labels whose variance is φ·w, divided by w: φ for each row.
    """
    dispersion, working = _dispersion(parts, sums, family) or 1.0, []
    for part, own in zip(parts, sums, strict=True):
        metric = part.change.T @ own.information @ part.change
        root = _root(metric)
        gradient = part.change.T @ (part.moments - own.moments)
        rows = part.equations.rows or 0
        constant = part.equations.constant
        working.append(
            NoisyNormalEquations(
                root,
                root @ beta + solve_triangular(root, gradient, trans="T"),
                solve_triangular(root, part.change.T @ part.noise, trans="T"),
                None if constant is None else int(np.argmax(part.change[constant])),
                rows,
                NoisyValue(dispersion * max(1, rows - len(root)), 0.0),
                radial=part.equations.radial,
            )
        )
    return working[0] if len(working) == 1 else pool(working)


def _root(metric: Array) -> Array:
    """Return the triangular L of LᵀL = H, also where H is singular in doubles."""
    scales = np.sqrt(np.diagonal(metric))
    scaled = metric / np.outer(scales, scales) + _JITTER * np.eye(len(metric))
    try:
        return np.asarray(cholesky(scaled)) * scales
    except LinAlgError:
        raise InputError(
            "columns depend on each other once rows are weighed: classes are separated; leave "
            "columns out (`columns`) or fit a linear model"
        ) from None


def _dispersion(parts: Sequence[Part], sums: Sequence[ModelSums], family: str) -> float | None:
    """Return φ, the variance of counts over that of Poisson's law; None where it is not known.

    The residual of the linear fit, if it was published, is in expectation φ·Σw and what
    means miss of their own linear fit, ‖m‖² − ‖R⁻ᵀXᵀm‖².
    """
    residuals = [part.equations.residual_ss for part in parts]
    if family != "poisson" or not all(each is not None and each.exceeds(1.0) for each in residuals):
        return None
    excess = 0.0
    for part, own in zip(parts, sums, strict=True):
        residual, root = part.equations.residual_ss, part.equations.root
        assert residual is not None
        linear = np.linalg.lstsq(root.T, own.moments)[0]
        freedom = 1 - len(linear) / max(part.equations.rows or 0, len(linear) + 1)
        excess += (residual.value - own.squares + float(linear @ linear)) / freedom
    return max(1.0, excess / math.fsum(own.weight for own in sums))


def _next_rule(
    equations: NoisyNormalEquations,
    root: Array,
    link_range: Range,
    degrees: Sequence[int],
    *,
    shrink: bool,
) -> tuple[FitRule, Array]:
    """Return the rule in the coordinates Rβ, and what turns those into the equations' Lβ."""
    turn = np.asarray(np.linalg.solve(root.T, equations.root.T).T, dtype=np.float64)  # L·R⁻¹
    back = np.linalg.inv(turn)
    even = replace(
        equations,
        root=root,
        estimate=back @ equations.estimate,
        spread=back @ equations.spread,
        residual_ss=None,
    )
    if not shrink:
        return ridge(even), turn
    return posterior_mean(even, link_range, degrees), turn


def _in_coordinates(rule: FitRule, turn: Array) -> FitRule:
    """Return a rule on Rβ as one on Lβ."""
    back, refit, posterior = np.linalg.inv(turn), rule.refit, rule.posterior
    return replace(
        rule,
        smoother=turn @ rule.smoother @ back,
        refit=None if refit is None else lambda other: turn @ refit(back @ other),
        posterior=None if posterior is None else turn @ posterior @ turn.T,
    )
