"""An audit accepts every law as it is, and notices noise, lengths and grids that are a little off.

Seeds are fixed. A right law fails an audit of 20 p-values with a chance of 2e-4, by its alarm.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from labeldp import InputError
from labeldp.accounting.calibrate import epsilon_at
from labeldp.accounting.gaussian import GaussianProfile
from labeldp.mechanisms import noisy_rows, sampled_wtd_flag as bagwise, shaped_flag
from labeldp.mechanisms.shaped_flag import ShapedFlag
from labeldp.sampling import rounded_noise
from labeldp_paper import audit as module
from labeldp_paper.audit import ALARM, Audit, audit, lower_bound, same_law
from tests.console import labeldp
from tests.mechanisms.test_person import with_ids
from tests.tables import RANGE, table

ROWS = 300
SHAPED = {"mechanism": "shaped-flag", "noise": "gaussian", "residual_share": 0.0}
LAPLACE = {"mechanism": "noisy-rows", "delta": 0.0}
NORMAL = {"mechanism": "noisy-rows", "epsilon": 4.0, "delta": 0.05}
FLAG = {"mechanism": "wtd-flag", "bags": 40, "floor": "added"}
BAGS = {"mechanism": "sampled-noisy-wtd-lag", "bags": 20, "bag_size": 15, "bag_seed": 1}
SKETCHED = {"mechanism": "sampled-wtd-flag", "bags": 60, "bag_size": 32, "bag_seed": 1}
SKETCHED |= {"floor": "added"}
CASES = {"shaped": SHAPED, "laplace": LAPLACE, "normal": NORMAL, "flag": FLAG, "bags": BAGS}


@pytest.fixture(autouse=True)
def _fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers enough for an error of one per cent; the time never ends before."""
    monkeypatch.setattr(module, "NUMBERS", 300_000)
    monkeypatch.setattr(module, "RELEASES", 2_000)


def enough(patch: pytest.MonkeyPatch, numbers: int, releases: int) -> None:
    """So many, however slow the machine is."""
    patch.setattr(module, "NUMBERS", numbers)
    patch.setattr(module, "RELEASES", releases)


def tried(data: Any = None, seconds: float = 40.0, **choices: Any) -> Audit:
    said = {"epsilon": 1.0, "delta": 1e-5, "label": "label", "label_range": RANGE, **choices}
    return audit(table(ROWS) if data is None else data, seconds=seconds, **said)


def failed(found: Audit) -> str:
    return "; ".join(check.name for check in found.failures)


def scaled(patch: pytest.MonkeyPatch, factor: float) -> None:
    """Let the sampler add so much of the noise that it is asked for."""
    honest = rounded_noise.sample_rounded

    def publish(mean: Any, error: Any, scale: Any, *rest: Any) -> Any:
        return honest(mean, error, (factor * scale[0], factor * scale[1]), *rest)

    patch.setattr(rounded_noise, "sample_rounded", publish)


@pytest.mark.parametrize("choices", CASES.values(), ids=CASES)
def test_the_right_law_passes(choices: dict[str, Any]) -> None:
    found = tried(**choices)
    assert found.passed, failed(found)
    assert found.numbers > 200_000
    assert found.notices < 0.02
    assert 0 <= found.lower_bound < found.epsilon
    slack = 0.5 if choices is BAGS else 0.999  # weights are drawn below a bound
    assert found.worst["moves"] > slack * found.worst["priced"]


@pytest.mark.parametrize("seed", [5, 6, 13])
def test_three_releases_are_no_reason_to_fail(seed: int) -> None:
    """Asymptotic tests would: of these seeds, two samples of three are apart."""
    found = tried(seconds=1e-9, seed=seed, **NORMAL)
    assert found.passed, failed(found)
    assert found.releases == 12


@pytest.mark.parametrize(
    ("choices", "factor"),
    [*((choices, 0.99) for choices in CASES.values()), (SHAPED, 1.01)],
    ids=[*CASES, "more"],
)
def test_noise_one_per_cent_off_is_noticed(
    choices: dict[str, Any], factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    scaled(monkeypatch, factor)
    assert "scale" in failed(tried(**choices))


def test_a_second_moment_and_radial_noise_have_their_laws(monkeypatch: pytest.MonkeyPatch) -> None:
    """Balls are slow, so that few are drawn here: a fifth too little noise is noticed."""
    enough(monkeypatch, 2_000, 150)
    choices = {"mechanism": "shaped-flag", "noise": "radial", "residual_share": 0.3}
    found = tried(**choices)
    assert found.passed, failed(found)
    assert found.notices < 0.2
    assert {"law of second moment: loss", "law of aggregates: loss"} <= {
        c.name for c in found.checks
    }
    scaled(monkeypatch, 0.8)
    assert "scale" in failed(tried(**choices))


def test_a_measured_floor_is_a_part_of_the_release(monkeypatch: pytest.MonkeyPatch) -> None:
    choices = {"mechanism": "wtd-flag", "bags": 40}
    found = tried(seconds=1.0, **choices)
    assert found.passed, failed(found)
    assert "law of floor: scale" in {check.name for check in found.checks}
    monkeypatch.setattr(
        "labeldp.mechanisms.residual_floor.added_variance", lambda needed, _: needed / 2
    )
    assert "price of aggregates" in failed(tried(seconds=0.2, **choices))


def test_a_length_that_is_too_small_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest, measured = ShapedFlag._sensitivity, shaped_flag.run_pass_with_lengths

    def shorter(*args: Any) -> Any:
        length, person = honest(*args)
        return 0.9 * length, person

    monkeypatch.setattr(ShapedFlag, "_sensitivity", shorter)
    monkeypatch.setattr(
        shaped_flag, "run_pass_with_lengths", lambda *args: (measured(*args)[0], None)
    )
    found = tried(seconds=0.2, **SHAPED)
    assert {"worst neighbour", "price of aggregates"} <= {check.name for check in found.failures}
    assert found.worst["moves"] == pytest.approx(found.worst["priced"] / 0.9, rel=1e-6)


def test_the_attack_finds_more_than_is_certified_where_noise_is_a_quarter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    enough(monkeypatch, 2_000, 2_000)
    scaled(monkeypatch, 0.25)
    found = tried(**LAPLACE)
    assert "attack" in failed(found)
    assert found.epsilon < found.lower_bound <= 4.0


@pytest.mark.parametrize(
    ("leak", "caught"),
    [
        (lambda noisy, step: noisy + step / 4, "support"),
        (lambda noisy, step: np.where(noisy > 5, noisy + 8 * step, noisy), "replay"),
    ],
)
def test_numbers_off_the_grid_and_noise_that_follows_labels_are_noticed(
    leak: Callable[..., Any], caught: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = noisy_rows.noisy_labels

    def leaky(values: Any, grid: Any, noise: Any, randomness: Any) -> Any:
        return leak(honest(values, grid, noise, randomness), math.ldexp(1.0, noise.grid))

    monkeypatch.setattr(noisy_rows, "noisy_labels", leaky)
    assert caught in failed(tried(seconds=0.2, **LAPLACE))


def test_a_public_part_that_follows_labels_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    honest = noisy_rows.row_schema
    calls = iter(range(100))

    def schema(*args: Any, **named: Any) -> Any:
        made = honest(*args, **named)
        return made.set(0, made.field(0).with_name(f"row{next(calls)}"))

    monkeypatch.setattr(noisy_rows, "row_schema", schema)
    assert "public part" in failed(tried(seconds=0.2, **LAPLACE))


@pytest.mark.parametrize("choices", [SHAPED, NORMAL])
def test_all_rows_of_a_person_are_moved_together(choices: dict[str, Any]) -> None:
    found = tried(with_ids(table(400)), seconds=0.5, person="id", **choices)
    assert found.passed, failed(found)
    assert found.worst["rows"] > 1
    assert found.worst["moves"] > 0.99 * found.worst["priced"]


def test_no_label_of_the_table_is_read() -> None:
    data = table(ROWS)
    absurd = data.set_column(4, "label", pa.array(np.full(ROWS, 1e9)))
    one, two = (tried(each, seconds=0.2, **LAPLACE) for each in (data, absurd))
    assert one.worst == two.worst
    assert one.passed
    assert two.passed


def test_a_bound_of_epsilon_is_one_and_not_far_below() -> None:
    """Losses of the Gaussian mechanism with μ = 1, of which δ(ε) is known."""
    rng, delta = np.random.default_rng(0), 0.01
    mine, theirs = rng.normal(0.5, 1.0, 100_000), rng.normal(-0.5, 1.0, 100_000)
    exact = epsilon_at(GaussianProfile(1.0), delta)
    assert 0.7 * exact < lower_bound(mine, theirs, delta, 1) < exact
    assert lower_bound(mine, mine[::-1], delta, 1) == 0.0


@pytest.fixture(scope="module")
def many() -> pa.Table:
    return table(2000)


@pytest.mark.parametrize("floor", ["added", "measured+added"])
def test_one_sum_of_each_bag_has_its_law(
    floor: str, many: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    enough(monkeypatch, 20_000, 300)
    found = tried(many, **SKETCHED | {"floor": floor})
    assert found.passed, failed(found)
    assert found.worst["moves"] > 0.999 * found.worst["priced"]
    assert ("law of floor: scale" in {check.name for check in found.checks}) == (floor != "added")
    scaled(monkeypatch, 0.95)
    assert "law of aggregates: scale" in failed(tried(many, **SKETCHED | {"floor": floor}))


@pytest.mark.slow
def test_one_per_cent_is_noticed_in_sums_of_bags(
    many: pa.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tried(many, seconds=1e3, **SKETCHED).notices < 0.01
    scaled(monkeypatch, 0.99)
    assert "scale" in failed(tried(many, seconds=1e3, **SKETCHED))


def test_a_leverage_that_is_too_small_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of numbers alone, so that no row is the only one of its level in a bag."""
    honest = bagwise.BagBounds.add

    def smaller(bounds: Any, stack: Any) -> None:
        bounds.leverage /= 0.8
        honest(bounds, stack)
        bounds.leverage *= 0.8

    monkeypatch.setattr("labeldp.mechanisms.sampled_wtd_flag.BagBounds.add", smaller)
    found = tried(table(2000).select(["height", "label"]), seconds=0.2, **SKETCHED)
    assert "worst neighbour" in failed(found)
    assert found.worst["moves"] == pytest.approx(found.worst["priced"] / 0.8, rel=1e-6)


def test_mechanisms_that_do_not_say_how_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.delitem(module.KNOWN_DATASETS, "noisy-rows")
        with pytest.raises(InputError, match="noisy-rows does not say how it is audited"):
            tried(**LAPLACE)
    over = SKETCHED | {"over_draw": True, "bag_seed": None, "delta": 1e-3}
    with pytest.raises(InputError, match="leave `over_draw` out"):
        tried(table(2000), **over)
    with pytest.raises(InputError, match="audit `accountant='exact'` given the bags"):
        tried(**BAGS | {"accountant": "exact-worst-case", "bag_seed": None})
    with pytest.raises(InputError, match="`seconds` must be above 0"):
        tried(seconds=0.0)


def test_the_command_line_says_what_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pq.write_table(table(ROWS), tmp_path / "t.parquet")
    said = ["audit", str(tmp_path / "t.parquet"), "--label", "label", "--label-range", "0", "10"]
    said += ["--mechanism", "noisy-rows", "--delta", "0", "--seconds", "0.3"]
    shown = labeldp(*said)
    assert shown.code == 0, shown.out
    assert "lower bound of ε" in shown.out
    assert "FAILED" not in shown.out
    told = labeldp(*said, "--json").json
    assert told["passed"] is True
    assert told["alarm"] == ALARM
    assert told["lower_bound"] <= told["epsilon"] == 1.0
    assert {"name", "passed", "found", "labels", "table", "p"} == set(told["checks"][0])
    scaled(monkeypatch, 0.5)
    broken = labeldp(*said)
    assert broken.code == 1
    assert "FAILED" in broken.out


def test_samples_that_are_all_but_equal_are_compared_without_a_word() -> None:
    """The exact p-value is then 1 and a rounding, which SciPy warns of."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert same_law(np.arange(5.0), np.arange(1.0, 6.0)) > 0.99
