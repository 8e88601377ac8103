"""BagRegressor: what it learns from releases, bags and rows, predicts, refuses and saves."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone

import labeldp.learners
from labeldp import plan
from labeldp.data.source import Source, scan
from labeldp.errors import InputError, MissingExtraError
from labeldp.features.fit import fit_features
from labeldp.learners.api import BagRegressor, LinearRegressor
from labeldp.learners.bags import standardise_labels
from labeldp.learners.models import NetworkOptions, input_columns, network_outputs, seal_of
from labeldp.releases.files import Release
from labeldp.sampling.streams import Randomness
from tests.console import labeldp as command
from tests.drawn import bag_release_of, draw_release, pay_table
from tests.extras import extra
from tests.learners.test_bags import noisy_bags

extra("torch")

ALONE: dict[str, Any] = {"shrink": False, "clip": False}  # one network, as it was trained
FAST: dict[str, Any] = {"hidden": (16,), "epochs": 10, "learning_rate": 0.01, **ALONE}
EXACT: dict[str, Any] = {  # enough of a linear fit to compare with the solution
    "hidden": (),
    "epochs": 150,
    "learning_rate": 0.05,
    "patience": 150,
    **ALONE,
}
QUICK: dict[str, Any] = {"hidden": (24, 12), "epochs": 20, "learning_rate": 0.006}
RANGE = (-2.0, 4.0)


def rows_and_labels(rows: int, seed: int) -> tuple[pa.Table, np.ndarray]:
    """A label that no linear model of the columns can follow."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-3, 3, rows), rng.normal(size=rows)
    kind = rng.choice(["a", "b", "c"], rows)
    signal = 20 + np.abs(x) * np.where(kind == "a", 4.0, -2.0) + 0.3 * z
    return pa.table({"x": x, "kind": kind, "z": z}), signal + 0.3 * rng.normal(size=rows)


TABLE, LABELS = rows_and_labels(16_000, 1)
SOURCE = scan(TABLE)


@pytest.fixture(scope="module")
def release() -> Release:
    """The shape of a sampled-noisy-wtd-LAg release: bags of 20 rows."""
    rng = np.random.default_rng(0)
    row, bag, weight = (
        rng.permutation(16_000),
        np.repeat(np.arange(800), 20),
        rng.normal(size=16_000),
    )
    sums = np.bincount(bag, weight * LABELS[row])
    return bag_release_of(fit_features(SOURCE), (bag, row, weight), sums)


def relabelled(release: Release, labels: np.ndarray) -> Release:
    """The same bags with other labels."""
    place = len(release.table.column_names) - 1
    name = release.table.column_names[place]
    return replace(release, table=release.table.set_column(place, name, pa.array(labels)))


@pytest.fixture(scope="module")
def fitted(release: Release) -> BagRegressor:
    return BagRegressor(**FAST).fit(release, SOURCE)


# --- one network ---


def test_a_network_learns_from_bags_what_a_line_cannot(release: Release) -> None:
    rows, labels = rows_and_labels(4000, 2)
    network = BagRegressor(epochs=50, **ALONE).fit(release, SOURCE)
    linear = BagRegressor(hidden=(), epochs=40, learning_rate=0.02, **ALONE).fit(release, SOURCE)
    errors = [np.mean((labels - model.predict(rows)) ** 2) for model in (network, linear)]
    assert errors[0] < 0.2 * errors[1]
    assert network.score(rows, labels) > 0.95
    best = network.validation_losses_[network.best_epoch_]
    assert best == pytest.approx(errors[0], rel=1.0)  # per row, so comparable with the error


def test_a_linear_network_is_least_squares() -> None:
    X = np.random.default_rng(1).normal(size=(800, 4))
    expected = X @ [3.0, -1.0, 0.5, 0.0] + 20
    np.testing.assert_allclose(
        BagRegressor(**EXACT).fit(X, expected).predict(X), expected, atol=0.02
    )


def test_labels_at_any_scale(fitted: BagRegressor, release: Release) -> None:
    """By a power of two nothing changes but the unit; by other factors, rounding."""
    rows = TABLE.slice(0, 500)
    expected = fitted.predict(rows)
    scale = np.std(expected)
    bag, weight = (release.bag_table[name].to_numpy() for name in ("bag", "weight"))
    for factor, shift in ((2.0**40, 0.0), (1e-9, 0.0), (3.0, 500.0)):
        labels = factor * release.labels + shift * np.bincount(bag, weight)
        model = BagRegressor(**FAST).fit(relabelled(release, labels), SOURCE)
        found = (model.predict(rows) - shift) / factor
        np.testing.assert_allclose(found, expected, atol=0.0 if factor > 9 else 0.02 * scale)
    X = np.random.default_rng(0).normal(size=(50, 2))
    for constant in (8.0, 0.0):
        model = BagRegressor(**FAST).fit(X, np.full(50, constant))
        np.testing.assert_array_equal(model.predict(X), constant)


def test_a_pruned_feature_map(release: Release) -> None:
    """Without a redundant level a network learns as much; without the constant too."""
    width = release.features.width
    for kept in (range(width - 1), range(1, width)):
        pruned = replace(release, features=release.features.keep(kept))
        model = BagRegressor(**FAST | {"epochs": 30}).fit(pruned, SOURCE)
        assert model.score(TABLE.slice(0, 1000), LABELS[:1000]) > 0.9
        assert len(model.feature_names_) == width - 1


def test_the_same_seed_gives_the_same_network(fitted: BagRegressor, release: Release) -> None:
    seen: list[Any] = []

    @contextmanager
    def progress(task: str, total: int | None) -> Iterator[Callable[[int], None]]:
        seen.append((task, total))
        yield seen.append
        seen.append("closed")

    again = clone(fitted).set_params(progress=progress).fit(release, scan(TABLE, batch_rows=1000))
    np.testing.assert_array_equal(again.predict(TABLE), fitted.predict(TABLE))
    assert seen == [("epochs", 10), *[1] * len(again.losses_), "closed"]
    other = clone(fitted).set_params(seed=1).fit(release, SOURCE)
    assert not np.array_equal(other.predict(TABLE), fitted.predict(TABLE))


def test_rows_of_any_scale() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(1e6, 1.0, size=(600, 3)) * [1.0, 1e-8, 1e8]
    y = np.abs(X[:, 0] - 1e6) + 3
    assert BagRegressor(epochs=60).fit(X, y).score(X, y) > 0.8


# --- labels whose noise is known ---


def curved(rows: int, seed: int) -> pa.Table:
    """What no line can follow."""
    rng = np.random.default_rng(seed)
    x, kind = rng.uniform(-1, 1, rows), rng.choice(["a", "b"], rows)
    y = (np.abs(x) - 0.5) * np.where(kind == "a", 3.0, -1.0) + 0.1 * rng.normal(size=rows)
    return pa.table({"x": x, "kind": kind, "y": y.clip(*RANGE)})


def source_of(table: pa.Table) -> Source:
    return scan(table, label="y", label_range=RANGE)


def released(table: pa.Table, epsilon: float, mechanism: str = "noisy-rows", seed: int = 0) -> Any:
    source = source_of(table)
    planned = plan(source, epsilon=epsilon, delta=1e-6, mechanism=mechanism, force=True)
    return planned.release(source, randomness=Randomness.experiment(seed))


@pytest.mark.parametrize("hidden", [(), (6,)])
def test_networks_are_stopped_by_the_parts_of_the_others_and_have_mean_0(
    hidden: tuple[int, ...],
) -> None:
    from labeldp.learners.training import train

    std = np.full(400, 0.5)
    bags, *_ = standardise_labels(noisy_bags(400, 2, 6, std), std, RANGE)
    options = NetworkOptions(hidden=hidden, epochs=9, learning_rate=0.1)
    networks = train(bags, options, lambda _: None, in_parts=True)
    assert sorted(np.concatenate([each.held_out for each in networks])) == list(range(400))
    losses = np.array([each.validation_losses for each in networks])
    for place, each in enumerate(networks):
        assert each.best_epoch == np.argmin(np.delete(losses, place, axis=0).sum(axis=0))
        values = network_outputs(each.matrices, bags.inputs.toarray().astype(float))
        assert np.mean(values) == pytest.approx(0, abs=1e-6)
        sums = np.add.reduceat(bags.weights * values, bags.offsets[:-1])
        np.testing.assert_allclose(each.held_out_sums(), sums[each.held_out], atol=1e-5)
    assert len({each.best_epoch for each in networks}) > 1  # or the test says nothing


def test_noisy_rows_teach_a_curve(tmp_path: Path) -> None:
    table, test = curved(3000, 0), curved(1000, 1)
    release = released(table, 12)
    model = BagRegressor(**QUICK).fit(release, source_of(table))
    line = LinearRegressor().fit(release, source_of(table))
    assert model.score(test, test["y"]) > 0.75 > 0.2 + line.score(test, test["y"])
    quality = model.quality_
    variance = float(np.var(test["y"].to_numpy()))
    assert quality.gain == pytest.approx(variance, abs=5 * quality.gain_error)
    assert quality.gain > 5 * quality.gain_error
    assert quality.r2 == pytest.approx(model.score(test, test["y"]), abs=0.1)
    assert 0.9 < model.share_ <= 1
    assert model.label_range_ == RANGE
    model.save(tmp_path / "net")
    again = BagRegressor.load(tmp_path / "net")
    np.testing.assert_array_equal(again.predict(test), model.predict(test))


def test_bags_count_for_what_they_tell() -> None:
    """Nine of ten bags with far more noise do little harm if it is known which."""
    table, test = curved(8000, 2), curved(2000, 3)
    release, rng = released(table, 200, "sampled-noisy-wtd-lag"), np.random.default_rng(4)
    more = np.where(rng.random(release.bags) < 0.9, 50.0, 0.0)
    columns = {name: release.table[name] for name in release.table.column_names}
    columns[release.table.column_names[-1]] = pa.array(
        release.labels + more * rng.normal(size=release.bags)
    )
    std = np.hypot(release.noise, more)
    scores = []
    for deviations in (std, np.full(len(std), np.sqrt(np.mean(std**2)))):
        columns["noise_std"] = pa.array(deviations)
        noisy = replace(release, table=pa.table(columns))
        model = BagRegressor(**QUICK).fit(noisy, source_of(table))
        scores.append(model.score(test, test["y"]))
    assert scores[0] > 0.5
    assert scores[0] > scores[1] + 0.3


@pytest.mark.parametrize("mechanism", ["noisy-rows", "sampled-noisy-wtd-lag"])
def test_where_noise_hides_all_the_constant_is_kept(mechanism: str) -> None:
    """Against the constant of the same release, which is what its labels have for the mean."""
    table, test = curved(500, 5), curved(2000, 6)
    y, lost = test["y"].to_numpy(), []
    for seed in range(3):
        model = BagRegressor(**QUICK).fit(released(table, 0.3, mechanism, seed), source_of(table))
        misses = [np.mean((f - y) ** 2) for f in (model.predict(test), model.shift_)]
        lost.append((misses[0] - misses[1]) / np.var(y))
    assert max(lost) < 0.05


def test_no_gain_is_said() -> None:
    table = curved(300, 7)
    labels = np.random.default_rng(8).permutation(table["y"])
    shuffled = table.set_column(2, "y", pa.array(labels))
    model = BagRegressor(**QUICK).fit(released(shuffled, 1), source_of(shuffled))
    assert model.share_ == 0
    assert "no gain over the constant" in model._model().describe(300)
    np.testing.assert_array_equal(model.predict(table), model.shift_)


def test_the_command_learns_from_rows(tmp_path: Path) -> None:
    pq.write_table(curved(3000, 9), tmp_path / "data.parquet")
    released(curved(3000, 9), 12).save(tmp_path / "r")
    fit = ("fit", tmp_path / "r", "--data", tmp_path / "data.parquet", "--model", "neural")
    assert "by labels held back" in command(*fit, "--epochs", 15).out
    shown = command(*fit, "--epochs", 15, "--json").json
    assert shown["quality"]["gain"] > shown["quality"]["gain_error"] > 0
    assert command(*fit, "--epochs", 1, "--no-shrink", "--json").json["quality"] is None


# --- refusals ---


def test_what_cannot_be_fitted_is_refused(release: Release) -> None:
    wrong = relabelled(release, release.labels * np.nan)
    sums = draw_release(pay_table(), 60, 3)
    for data, message in (
        ((wrong, SOURCE), "finite"),
        ((sums,), r"f\(Σ w x\) is not Σ w f\(x\)"),
    ):
        with pytest.raises(InputError, match=message):
            BagRegressor().fit(*data)


def test_wrong_parameters() -> None:
    for change in (
        {"hidden": (0,)}, {"hidden": (1.5,)}, {"hidden": 3}, {"epochs": 0}, {"learning_rate": 0.0},
        {"learning_rate": "fast"}, {"patience": 0},
        {"seed": -1}, {"seed": 2**63}, {"seed": None},
    ):  # fmt: skip
        model = BagRegressor(**change)  # the constructor only stores
        with pytest.raises(InputError, match=next(iter(change))):
            model.fit(np.zeros((4, 2)), np.arange(4.0))


def test_a_file_of_an_earlier_version_with_inputs_as_in_the_design(
    fitted: BagRegressor, tmp_path: Path
) -> None:
    """They stood there without the constant; now levels come before numbers."""
    path, features = tmp_path / "model", fitted.features_
    fitted.save(path)
    first, kept = fitted.layers_[0], len(features.names) - 1
    earlier = np.empty_like(first)
    earlier[kept] = first[kept]
    earlier[input_columns(features) - 1] = first[:kept]
    rewrite(path, {"input": "design"}, {"layer_0": earlier})
    rows = TABLE.slice(0, 50)
    np.testing.assert_array_equal(BagRegressor.load(path).predict(rows), fitted.predict(rows))


# --- without torch ---


def test_without_torch_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # type: ignore[arg-type]
    monkeypatch.delitem(sys.modules, "labeldp.learners.training", raising=False)
    monkeypatch.delattr(labeldp.learners, "training", raising=False)
    with pytest.raises(MissingExtraError, match=r"the neural learner.*labeldp\[torch\]"):
        BagRegressor().fit(np.zeros((4, 2)), np.arange(4.0))


def test_a_model_is_used_without_torch(fitted: BagRegressor, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    code = (
        "import sys\n"
        "from labeldp import BagRegressor\n"
        "import pyarrow as pa\n"
        f"model = BagRegressor.load({str(tmp_path / 'model')!r})\n"
        "print(repr(float(model.predict(pa.table({'x': [1.0], 'kind': ['a'], 'z': [0.5]}))[0])))\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    expected = fitted.predict(pa.table({"x": [1.0], "kind": ["a"], "z": [0.5]}))[0]
    assert float(done.stdout) == pytest.approx(expected, rel=1e-12)


# --- files ---


def rewrite(path: Path, change: dict[str, Any], arrays: dict[str, Any]) -> None:
    """Change a file and seal it again, so that what is inside is looked at."""
    with np.load(path) as file:
        contents = dict(file) | arrays
    header = contents.pop("header")
    if header.any():  # else it was replaced
        document = json.loads(header.tobytes())
        document = {key: value for key, value in (document | change).items() if value != "absent"}
        document["seal"] = seal_of(document, contents)
        header = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
    with open(path, "wb") as file:
        np.savez(file, header=header, **contents)


@pytest.mark.parametrize(
    ("change", "arrays"),
    [
        ({"format": "labeldp.linear-regressor"}, {}), ({"format": "absent"}, {}),
        ({"version": 2}, {}), ({"layers": 3}, {}), ({"layers": "2"}, {}), ({"layers": 0}, {}),
        ({"parameters": None}, {}), ({"spread": "absent"}, {}),
        ({}, {"header": np.zeros(5, dtype=np.uint8)}),
    ],
    ids=range(9),
)  # fmt: skip
def test_load_refuses_damage(
    fitted: BagRegressor, tmp_path: Path, change: dict[str, Any], arrays: dict[str, Any]
) -> None:
    path = tmp_path / "model"
    fitted.save(path)
    rewrite(path, {}, {})
    BagRegressor.load(path)
    rewrite(path, change, arrays)
    with pytest.raises(InputError, match="model file"):
        BagRegressor.load(path)


def test_load_refuses_flipped_bytes_and_compression(fitted: BagRegressor, tmp_path: Path) -> None:
    path, rows = tmp_path / "model", TABLE.slice(0, 100)
    fitted.save(path)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    expected = fitted.predict(rows)
    damaged = [whole[:100], whole[:-30], whole[30:]]
    for _ in range(30):  # one byte flipped: the checksums notice, or it did not matter
        at = int(rng.integers(len(whole)))
        damaged.append(whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :])
    for content in damaged:
        path.write_bytes(content)
        with suppress(InputError):
            assert np.array_equal(BagRegressor.load(path).predict(rows), expected)
    path.write_bytes(whole)
    with np.load(path) as file:
        np.savez_compressed(tmp_path / "small.npz", **dict(file))
    with pytest.raises(InputError, match="model file"):
        BagRegressor.load(tmp_path / "small.npz")
