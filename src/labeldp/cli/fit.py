"""labeldp fit"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from labeldp.cli.derived import argument, told
from labeldp.cli.options import Json, names, raw_rows
from labeldp.cli.output import draw_all, emit_json, note, progress
from labeldp.errors import DataError, InputError
from labeldp.io_util import check_target, new_path
from labeldp.mechanisms.options import option
from labeldp.pictures import need_matplotlib

if TYPE_CHECKING:
    from labeldp.data.source import Source
    from labeldp.learners.models import LinearOptions, Model, NetworkOptions
    from labeldp.learners.summary import Summary
    from labeldp.release.files import Release


@dataclass(frozen=True, kw_only=True)
class LearningOptions:
    """How to learn: each learner takes what it has."""

    ridge: str = option("0", "Ridge penalty, in units of rows, or auto.", metavar="NUMBER|auto")
    lasso: str = option("0", "Lasso penalty, or auto.", metavar="NUMBER|auto")
    max_norm: float | None = option(
        None, "Bound on the norm of the coefficients (the paper's B_r)."
    )
    columns: str | None = option(
        None, "Regress on these columns alone; default: all.", metavar="A,B"
    )
    confidence: float = option(0.95, "Level of the intervals.")
    shrink: bool | None = option(
        None,
        "Shrink predictions to a posterior mean; default: where noise is known.",
        flag="--shrink/--no-shrink",
    )
    clip: bool = option(True, "Let predictions leave the public label range.", flag="--no-clip")
    epochs: int = option(200, "Most passes over the bags (neural).")
    learning_rate: float = option(1e-3, "Of the first steps (neural).")
    seed: int = option(0, "Of the first weights (neural).", min=0)


_DEFAULT = LearningOptions()


def fit(
    directories: Annotated[
        list[Path],
        argument("A release directory, or several of different rows."),
    ],
    model: Annotated[str, told("linear or neural (needs the extra torch).")] = "linear",
    data: Annotated[
        str | None,
        told("The table whose rows the release names, for its features; no label is read."),
    ] = None,
    learning: LearningOptions = _DEFAULT,
    out: Annotated[Path | None, told("Write the model here (JSON).")] = None,
    summary: Annotated[Path | None, told("Write a summary here: .txt, .html or .tex.")] = None,
    plots: Annotated[
        Path | None,
        told("Write pictures into this new directory; needs the extra plots."),
    ] = None,
    test: Annotated[str | None, told("Labelled rows to score on; for the curator only.")] = None,
    label: Annotated[str | None, told("The label column of --test.")] = None,
    no_verify: Annotated[bool, told("Fit even on files that were altered.")] = False,
    verbose: Annotated[bool, told("Show all coefficients.")] = False,
    json: Json = False,
) -> None:
    """Fit a regression on a release, or on several. Costs no privacy."""
    from labeldp.learners import linear
    from labeldp.learners.plots import pictures
    from labeldp.learners.summary import Summary
    from labeldp.release.files import Release

    if (test is None) != (label is None):
        raise InputError("--test and --label go together: give both or neither")
    if model not in ("linear", "neural"):
        raise InputError(f"--model {model!r} is unknown; choose linear or neural")
    options = _linear_options(learning)
    network_options = None if model == "linear" else _network_options(learning, options)
    _check_targets(model, out, summary, plots)
    releases = [Release.load(directory, verify=not no_verify) for directory in directories]
    rows = _rows(model, releases, directories, data)
    fitted: Model
    told, charts, lines = None, [], ""
    if network_options is None:
        fitted = linear.fit_release(releases, rows, options)
        told = Summary.of(fitted)
        charts = [] if plots is None else pictures(fitted)
        lines = told.text(None if verbose else _MOST_SHOWN)
    else:
        from labeldp.learners import network

        fitted = network.fit_release(releases[0], rows, network_options, progress)
        lines = fitted.describe(releases[0].bags)
    score = Score(None, None, None)
    if test is not None and label is not None:
        score = _score(fitted, test, _labelled(releases, test, label))
    if out is not None:
        fitted.save(out)
    if summary is not None and told is not None:
        _write(summary, told)
    if plots is not None:
        draw_all(charts, plots)
    if test is not None:
        note("the score on --test comes from raw labels: for the curator, not for publication")
    if json:
        emit_json(_document(directories, model, fitted, told, learning) | score.to_json())
        return
    print(lines)
    if test is not None:
        print(f"\n{score.words(test)}")


_MOST_SHOWN = 12
"""Coefficients, without --verbose."""


def _document(
    directories: list[Path],
    model: str,
    fitted: Model,
    told: Summary | None,
    learning: LearningOptions,
) -> dict[str, Any]:
    quality = None if fitted.quality is None else asdict(fitted.quality)
    known = {"quality": quality} if told is None else told.to_dict()
    names = ("rule", "clipped_to", "quality", "releases", "base_levels", "notes")
    return {
        "release": ", ".join(map(str, directories)),
        "model": model,
        "coefficients": [asdict(coefficient) for coefficient in fitted.coefficients],
        "confidence": learning.confidence,
        **{name: known.get(name) for name in names},
    }


def _check_targets(model: str, out: Path | None, summary: Path | None, plots: Path | None) -> None:
    for target in (out, summary, plots):
        if target is not None:
            check_target(target)
    if summary is not None and summary.suffix not in (".txt", ".html", ".tex"):
        raise InputError(f"{summary}: a summary is written as .txt, .html or .tex; name one")
    if summary is not None and model != "linear":
        raise InputError("--summary is for --model linear; leave it out")
    if plots is not None:
        if model != "linear":
            raise InputError("--plots is for --model linear; leave it out")
        need_matplotlib()


def _write(target: Path, told: Summary) -> None:
    forms = {".txt": told.text, ".html": told.to_html, ".tex": told.to_latex}
    with new_path(target) as partial:
        partial.write_text(forms[target.suffix]() + "\n", encoding="utf-8")


def _linear_options(learning: LearningOptions) -> LinearOptions:
    from labeldp.learners.models import LinearOptions

    return LinearOptions(
        penalty=_penalty("ridge", learning.ridge),
        lasso=_penalty("lasso", learning.lasso),
        max_norm=learning.max_norm,
        columns=names(learning.columns) if learning.columns is not None else None,
        confidence=learning.confidence,
        shrink=learning.shrink,
        clip=learning.clip,
    )


def _network_options(learning: LearningOptions, linear: LinearOptions) -> NetworkOptions:
    """Return what training reads; refuse what only a linear model has."""
    from labeldp.learners.models import LinearOptions, NetworkOptions

    for name in ("penalty", "lasso", "columns"):
        if getattr(linear, name) != getattr(LinearOptions(), name):
            raise InputError(f"`{name}` is for --model linear; leave it out")
    return NetworkOptions(
        max_norm=learning.max_norm,
        shrink=learning.shrink,
        clip=learning.clip,
        epochs=learning.epochs,
        learning_rate=learning.learning_rate,
        seed=learning.seed,
    )


def _penalty(name: str, text: str) -> Any:
    """A number, or "auto"."""
    try:
        return text if text == "auto" else float(text)
    except ValueError:
        raise InputError(f"--{name} is a number or auto, not {text!r}") from None


def _rows(
    model: str, released: list[Release], directories: list[Path], data: str | None
) -> Source | None:
    """The table whose rows a release names, where it names any."""
    from labeldp.release.files import WANTS_TABLE
    from labeldp.release.rows import table_rows

    if len(released) > 1:
        if model != "linear":
            raise InputError("several releases are for --model linear; give one")
        return None
    (release,) = released
    if release.aggregates_features:
        if model == "neural":
            raise InputError(
                "a network cannot be learnt from aggregated features; fit --model linear, or "
                "release with --mechanism sampled-noisy-wtd-lag"
            )
        return None
    if not release.needs_rows:
        return None
    if data is None:
        raise InputError(f"{directories[0]}: {WANTS_TABLE}")
    return table_rows(release, data)


@dataclass(frozen=True)
class Score:
    """How well raw labels are predicted; None if none were given."""

    test_mse: float | None
    test_r2: float | None
    test_constant_mse: float | None
    """Of the constant that is best on the same labels, their mean."""

    def to_json(self) -> dict[str, float | None]:
        return asdict(self)

    def words(self, test: str) -> str:
        share = "–" if self.test_r2 is None else f"{self.test_r2:.4g}"
        return (
            f"mean squared error on {test}: {self.test_mse:.6g}, R² {share}; "
            f"of the best constant there: {self.test_constant_mse:.6g}"
        )


def _labelled(released: list[Release], test: str, label: str) -> Source:
    """Labelled rows; labels are clipped if those of a release were."""
    source = raw_rows(test, released[0].features, label)
    clipped = any(each.certificate["labels"]["outside_range"] == "clipped" for each in released)
    if not clipped:
        return source
    ends = [each.certificate["label_range"] for each in released]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return replace(source, label_range=(low, high), clip=True)


def _score(model: Model, test: str, source: Source) -> Score:
    import numpy as np

    errors, labels = [], []
    for batch, truth in source.labelled_batches():
        errors.append((truth - model.predict(batch)) ** 2)
        labels.append(truth)
    if not sum(map(len, labels)):
        raise DataError(f"{test}: no row has a label, so nothing can be scored")
    mse, constant = float(np.mean(np.concatenate(errors))), float(np.var(np.concatenate(labels)))
    return Score(mse, 1 - mse / constant if constant > 0 else None, constant)
