"""shaped-flag: d sums of all rows with public weights chosen for the features, and noise."""

from dataclasses import dataclass
from pathlib import Path

from labeldp.errors import InputError, at_least
from labeldp.mechanisms.options import FeaturesQuestion, GuessOptions, option
from labeldp.mechanisms.protocol import Account, Inspection, Mechanism, later, of_folder
from labeldp.mechanisms.registry import read_schema

RESIDUAL_SHARE = 0.05
"""Of μ², or of ε where noise is radial, by default."""
AUTO, GAUSSIAN, RADIAL = _LAWS = ("auto", "gaussian", "radial")
"""The laws of noise; auto: the one of less variance."""
_SHARE = "Share of μ² (of ε, where noise is radial) that publishes the residual's root"
_NOISE = "Law of the noise: gaussian, radial (pure ε), or auto: that of less variance."

_RIDGE = "Shape the noise for fits that shrink by this ridge; 0: for least squares; default: chosen"

_LEAST_SHARE, _MOST_RIDGE = 1e-12, 1e6
"""With less the residual drowns in its noise; by more every slope is shrunk to nothing."""


def _law(noise: str) -> None:
    if noise not in _LAWS:
        raise InputError(f"`noise` must be {', '.join(_LAWS[:-1])} or {_LAWS[-1]}, not {noise!r}")


def _share(residual_share: float) -> None:
    if not 0 <= residual_share <= 0.9:
        raise InputError(f"`residual_share` must lie between 0 and 0.9, not {residual_share}")
    if 0 < residual_share < _LEAST_SHARE:
        raise InputError(
            f"`residual_share` must be at least {_LEAST_SHARE:g}, not {residual_share}, or 0: none"
        )


def _size(shape_ridge: float) -> None:
    at_least(0, shape_ridge=shape_ridge)
    if shape_ridge > _MOST_RIDGE:
        raise InputError(f"`shape_ridge` must be at most {_MOST_RIDGE:g}, not {shape_ridge:g}")


@dataclass(frozen=True, kw_only=True)
class ShapedFlagOptions(GuessOptions):
    """What may be asked of shaped-flag."""

    residual_share: float = option(RESIDUAL_SHARE, f"{_SHARE}; 0: none.", check=_share)
    noise: str = option(AUTO, _NOISE, check=_law)
    shape_ridge: float | None = option(None, f"{_RIDGE}.", check=_size)


@dataclass(frozen=True, kw_only=True)
class ShapedFlagQuestion(FeaturesQuestion):
    """What `labeldp account` can be asked about shaped-flag."""

    residual_share: float | None = option(None, f"{_SHARE}; default: 0.05.", check=_share)
    noise: str | None = option(None, _NOISE, check=_law)


_SECTIONS = read_schema(Path(__file__).parent / "shape.schema.json")

_here = of_folder(__name__)

MECHANISM = Mechanism(
    name="shaped-flag",
    title="d sums of all rows with chosen public weights, and noise",
    options=ShapedFlagOptions,
    persons=True,
    pure=True,
    closed_form=True,
    draft=_here("plan:draft"),
    run=_here("run:run"),
    read_claim=_here("claim:read_claim"),
    check=_here("check:check"),
    check_features=_here("check:check_features"),
    untested=_here("check:untested"),
    describe=_here("claim:describe"),
    sections=_SECTIONS["properties"],
    files={"weights": _here("published:weight_columns")},
    parts={"weights": later("labeldp.exact.row_norms:Weights.from_json")},
    meaning=_here("published:meaning"),
    account=Account(ShapedFlagQuestion, _here("account:answer"), _here("account:show")),
    inspection=Inspection(_here("account:inspect"), _here("account:show_inspection")),
)
