"""BagRegressor: what it learns from releases, bags and rows, predicts, refuses and saves."""

from __future__ import annotations

import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from labeldp.data.source import scan
from labeldp.errors import InputError
from labeldp.features.fit import fit_features
from labeldp.learners.api import BagRegressor, LinearRegressor
from labeldp.learners.bags import WeightedBags
from labeldp.learners.model_file import seal_of
from labeldp.release.files import Release
from tests.drawn import bag_release_of
from tests.extras import extra

extra("torch")

ALONE: dict[str, Any] = {"shrink": False, "clip": False}  # one network, as it was trained
FAST: dict[str, Any] = {"hidden": (16,), "epochs": 10, "learning_rate": 0.01, **ALONE}
EXACT: dict[str, Any] = {  # enough of a linear fit to compare with the solution
    "hidden": (),
    "epochs": 150,
    "learning_rate": 0.05,
    "batch_rows": 10**9,
    "validation_fraction": 0.0,
    **ALONE,
}


def rows_and_labels(rows: int, seed: int) -> tuple[pa.Table, np.ndarray]:
    """A label that no linear model of the columns can follow."""
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-3, 3, rows), rng.normal(size=rows)
    kind = rng.choice(["a", "b", "c"], rows)
    signal = 20 + np.abs(x) * np.where(kind == "a", 4.0, -2.0) + 0.3 * z
    return pa.table({"x": x, "kind": kind, "z": z}), signal + 0.3 * rng.normal(size=rows)


def bag_release(table: pa.Table, labels: np.ndarray, bags: int, size: int, seed: int = 0) -> Any:
    """The shape of a sampled-noisy-wtd-LAg release."""
    rng = np.random.default_rng(seed)
    row = rng.permutation(len(labels))[: bags * size]
    bag, weight = np.repeat(np.arange(bags), size), rng.normal(size=bags * size)
    sums = np.bincount(bag, weight * labels[row])
    return bag_release_of(fit_features(scan(table)), (bag, row, weight), sums)


def relabelled(release: Release, labels: np.ndarray) -> Release:
    """The same bags with other labels."""
    place = len(release.table.column_names) - 1
    name = release.table.column_names[place]
    return replace(release, table=release.table.set_column(place, name, pa.array(labels)))


@pytest.fixture(scope="module")
def data() -> tuple[pa.Table, np.ndarray]:
    return rows_and_labels(24_000, 1)


@pytest.fixture(scope="module")
def release(data: tuple[pa.Table, np.ndarray]) -> Any:
    return bag_release(*data, bags=1000, size=24)


@pytest.fixture(scope="module")
def fitted(release: Any, data: tuple[pa.Table, np.ndarray]) -> BagRegressor:
    return BagRegressor(**FAST).fit(release, scan(data[0]))


# --- learning ---


def test_a_network_learns_from_bags_what_a_line_cannot(
    release: Any, data: tuple[pa.Table, np.ndarray]
) -> None:
    source = scan(data[0])
    rows, labels = rows_and_labels(4000, 2)
    network = BagRegressor(epochs=60, batch_rows=1024, **ALONE).fit(release, source)
    linear = BagRegressor(hidden=(), epochs=60, learning_rate=0.02, **ALONE).fit(release, source)
    errors = [np.mean((labels - model.predict(rows)) ** 2) for model in (network, linear)]
    assert errors[0] < 0.2 * errors[1]
    assert network.score(rows, labels) > 0.95
    assert network.predict(rows.to_pandas()).shape == (4000,)
    assert network.n_features_in_ == len(release.features.names)
    assert tuple(network.feature_names_in_) == release.features.names
    best = network.validation_losses_[network.best_epoch_]
    assert best == pytest.approx(errors[0], rel=1.0)  # per row, so comparable with the error


def test_linear_on_aggregates_is_least_squares(
    make_release: Callable[..., Any], table: pa.Table
) -> None:
    release = make_release(table, 400, 3)
    model = BagRegressor(**EXACT | {"epochs": 300}).fit(release)
    exact = LinearRegressor().fit(release)
    spread = np.std(exact.predict(table))
    np.testing.assert_allclose(model.predict(table), exact.predict(table), atol=2e-3 * spread)
    assert model.row_norm_ is None
    few = BagRegressor(hidden=(), epochs=3)
    with_source = clone(few).fit(release, scan(table)).predict(table)  # which is not needed
    np.testing.assert_array_equal(few.fit(release).predict(table), with_source)


def test_linear_on_bags_is_least_squares_on_their_sums(
    release: Any, data: tuple[pa.Table, np.ndarray]
) -> None:
    model = BagRegressor(**EXACT | {"batch_rows": 2048, "epochs": 60}).fit(release, scan(data[0]))
    X = release.features.design(data[0])
    bag, row, weight = (release.bag_table[name].to_numpy() for name in ("bag", "row", "weight"))
    Z = np.zeros((len(release.labels), X.shape[1]))
    np.add.at(Z, bag, weight[:, None] * X[row])
    exact = X @ np.linalg.lstsq(Z, release.labels, rcond=None)[0]
    np.testing.assert_allclose(model.predict(data[0]), exact, atol=0.01 * np.std(exact) + 0.01)


def test_single_rows_are_the_instance_level_baseline(data: tuple[pa.Table, np.ndarray]) -> None:
    table, labels = data[0].slice(0, 800), data[1][:800]
    features = fit_features(scan(table))
    bags = WeightedBags.from_rows(features, table, labels)
    model = BagRegressor(**EXACT).fit(bags)
    X = features.design(table)
    exact = LinearRegression(fit_intercept=False).fit(X, labels).predict(X)
    np.testing.assert_allclose(model.predict(table), exact, atol=0.02)
    # The same rows as explicit bags of one, weight 1, and the same training.
    ones = np.arange(800)
    encoded = features.encode(table.combine_chunks().to_batches()[0])
    other = WeightedBags.from_bags(features, encoded, ones, ones, np.ones(800), labels)
    twin = BagRegressor(**FAST).fit(other)
    again = BagRegressor(**FAST).fit(bags)
    np.testing.assert_array_equal(twin.predict(table), again.predict(table))


def test_labels_at_any_scale(release: Any, data: tuple[pa.Table, np.ndarray]) -> None:
    """By a power of two nothing changes but the unit; by other factors, rounding."""
    source, rows = scan(data[0]), data[0].slice(0, 500)
    expected = BagRegressor(**FAST).fit(release, source)

    def refit(labels: np.ndarray) -> BagRegressor:
        return BagRegressor(**FAST).fit(relabelled(release, labels), source)

    for factor in (2.0**40, 2.0**-40):
        model = refit(release.labels * factor)
        np.testing.assert_array_equal(model.predict(rows), factor * expected.predict(rows))
    scale = np.std(expected.predict(rows))
    bag, weight = (release.bag_table[name].to_numpy() for name in ("bag", "weight"))
    for factor, shift in ((1e-9, 0.0), (1e12, 0.0), (-3.0, 500.0)):
        labels = factor * release.labels + shift * np.bincount(bag, weight)
        model = refit(labels)
        if factor > 0:
            found = (model.predict(rows) - shift) / factor
            np.testing.assert_allclose(found, expected.predict(rows), atol=0.02 * scale)
        assert model.score(rows, factor * data[1][:500] + shift) > 0.8


def test_constant_labels_are_predicted_exactly() -> None:
    X = np.random.default_rng(0).normal(size=(50, 2))
    np.testing.assert_array_equal(BagRegressor(**FAST).fit(X, np.full(50, 8.0)).predict(X), 8.0)
    np.testing.assert_array_equal(BagRegressor(**FAST).fit(X, np.zeros(50)).predict(X), 0.0)


def test_a_pruned_feature_map(release: Any, data: tuple[pa.Table, np.ndarray]) -> None:
    """Without a redundant level a network learns as much; without the constant too."""
    width = release.features.width
    rows, labels = data[0].slice(0, 1000), data[1][:1000]
    for kept in (range(width - 1), range(1, width)):
        pruned = replace(release, features=release.features.keep(kept))
        model = BagRegressor(epochs=30, batch_rows=1024, **ALONE).fit(pruned, scan(data[0]))
        assert model.score(rows, labels) > 0.9
        assert model.n_features_in_ == width - 1


# --- the bounded class ---


def test_the_class_is_kept_and_its_bound_holds(
    release: Any, data: tuple[pa.Table, np.ndarray]
) -> None:
    model = BagRegressor(**FAST | {"hidden": (16, 8)}, max_norm=1.5).fit(release, scan(data[0]))
    for matrix in model.layers_.matrices:
        assert np.linalg.norm(matrix.astype(np.float64)) <= 1.5
    K = max(1.5, model.row_norm_)
    ratio = sum(K ** (2 * i) for i in range(4))
    bound = abs(model.shift_) + model.scale_ * K * np.sqrt(ratio)
    assert model.output_bound() == pytest.approx(bound)
    assert model.lipschitz_constant() == pytest.approx(model.scale_ * np.sqrt(3 * ratio))
    assert np.abs(model.predict(data[0])).max() <= model.output_bound()
    assert model.output_bound(row_norm=100.0) > model.output_bound()


def test_the_bound_holds_for_the_worst_network_of_the_class() -> None:
    """One wide direction through every layer, on the longest row; also the weight-Lipschitz one."""
    rng = np.random.default_rng(0)
    for K, l0 in ((1.0, 2), (2.0, 3), (0.5, 2)):
        from labeldp.learners.layers import Layers, lipschitz_constant, output_bound

        x = np.array([[K, 0.0]])
        codes = np.empty((1, 0), dtype=np.int32)
        for _ in range(200):
            widths = (2, *(3,) * (l0 - 1), 1)
            pair = []
            for _ in range(2):
                matrices = [rng.normal(size=(widths[i] + 1, widths[i + 1])) for i in range(l0)]
                matrices = [np.abs(W) * K / np.linalg.norm(W) for W in matrices]
                pair.append([W.astype(np.float32) for W in matrices])
            f, g = (float(Layers((), tuple(W)).values(codes, x)[0]) for W in pair)
            distance = np.sqrt(sum(np.sum((a - b) ** 2) for a, b in zip(*pair, strict=True)))
            assert abs(f) <= output_bound(K, l0) * (1 + 1e-6)
            assert abs(f - g) <= lipschitz_constant(K, l0) * distance * (1 + 1e-6)


def test_without_scaling_f_is_the_network(release: Any, data: tuple[pa.Table, np.ndarray]) -> None:
    model = BagRegressor(**FAST, max_norm=4.0, scale_labels=False).fit(release, scan(data[0]))
    assert model.shift_ == 0
    assert model.scale_ == 1
    assert model.output_bound() == pytest.approx(
        max(4.0, model.row_norm_)
        * np.sqrt(sum(max(4.0, model.row_norm_) ** (2 * i) for i in range(3)))
    )


def test_no_bound_without_a_class(
    fitted: BagRegressor, make_release: Callable[..., Any], table: pa.Table
) -> None:
    with pytest.raises(InputError, match="unbounded"):
        fitted.output_bound()
    model = BagRegressor(hidden=(), epochs=2, max_norm=2.0).fit(make_release(table, 60, 3))
    with pytest.raises(InputError, match="pass `row_norm`"):
        model.output_bound()
    assert model.output_bound(row_norm=3.0) > 0


# --- as an estimator ---


def test_the_same_seed_gives_the_same_network(
    fitted: BagRegressor, release: Any, data: tuple[pa.Table, np.ndarray]
) -> None:
    again = clone(fitted).fit(release, scan(data[0], batch_rows=1000))
    np.testing.assert_array_equal(again.predict(data[0]), fitted.predict(data[0]))
    other = clone(fitted).set_params(seed=1).fit(release, scan(data[0]))
    assert not np.array_equal(other.predict(data[0]), fitted.predict(data[0]))


def test_rows_of_any_scale_in_a_pipeline() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(1e6, 1.0, size=(600, 3)) * [1.0, 1e-8, 1e8]
    y = np.abs(X[:, 0] - 1e6) + 3
    model = BagRegressor(epochs=60).fit(X, y)
    assert model.score(X, y) > 0.8
    assert make_pipeline(StandardScaler(), BagRegressor(epochs=60)).fit(X, y).score(X, y) > 0.8
    assert not hasattr(model, "feature_names_in_")


def test_progress_is_one_step_an_epoch(release: Any, data: tuple[pa.Table, np.ndarray]) -> None:
    seen: list[Any] = []

    @contextmanager
    def progress(task: str, total: int | None) -> Iterator[Callable[[int], None]]:
        seen.append((task, total))
        yield seen.append
        seen.append("closed")

    model = BagRegressor(**FAST, progress=progress).fit(release, scan(data[0]))
    assert seen == [("epochs", 10), *[1] * len(model.losses_), "closed"]
    assert clone(model).progress is progress


# --- refusals ---


def test_hidden_layers_are_refused_on_aggregates(
    make_release: Callable[..., Any], table: pa.Table
) -> None:
    with pytest.raises(InputError, match=r"f\(Σ w x\) is not Σ w f\(x\)"):
        BagRegressor().fit(make_release(table, 60, 3))


def test_other_refusals(release: Any, data: tuple[pa.Table, np.ndarray]) -> None:
    with pytest.raises(InputError, match=r"fit\(release, table\)"):
        BagRegressor().fit(release)
    with pytest.raises(ValueError, match="requires y"):
        BagRegressor().fit(data[0])
    with pytest.raises(NotFittedError):
        BagRegressor().predict(data[0])
    with pytest.raises(NotFittedError):
        BagRegressor().save("never-written")
    wrong = relabelled(release, release.labels * np.nan)
    with pytest.raises(InputError, match="finite"):
        BagRegressor().fit(wrong, scan(data[0]))
    with pytest.raises(InputError, match="rows but the release was made from"):
        BagRegressor().fit(release, scan(pa.concat_tables([data[0], data[0]])))


@pytest.mark.parametrize(
    "change",
    [
        {"hidden": (0,)},
        {"hidden": (1.5,)},
        {"hidden": 3},
        {"epochs": 0},
        {"learning_rate": 0.0},
        {"learning_rate": "fast"},
        {"final_rate": -1.0},
        {"batch_rows": 0},
        {"patience": 0},
        {"validation_fraction": 1.0},
        {"validation_fraction": -0.1},
        {"max_norm": 0.0},
        {"seed": -1},
        {"seed": 2**63},
        {"seed": None},
        {"threads": 0},
    ],
    ids=str,
)
def test_wrong_parameters(change: dict[str, Any]) -> None:
    model = BagRegressor(**change)  # the constructor only stores
    with pytest.raises(InputError, match=next(iter(change)) + "|wrong kind"):
        model.fit(np.zeros((4, 2)), np.arange(4.0))


def test_bags_without_a_feature_map_cannot_meet_raw_rows(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    bags = WeightedBags(
        rng.integers(0, 3, (30, 1)).astype(np.int32),
        np.empty((30, 0), dtype=np.float32),
        np.ones(30, dtype=np.float32),
        np.arange(31),
        rng.normal(size=30),
        (3,),
        np.ones(30),
    )
    model = BagRegressor(**FAST).fit(bags)
    for use in (lambda: model.predict(pa.table({"a": [1]})), lambda: model.save(tmp_path / "m")):
        with pytest.raises(InputError, match="no feature map"):
            use()
    numbers = WeightedBags.from_arrays(rng.normal(size=(30, 2)), rng.normal(size=30))
    assert BagRegressor(**FAST).fit(numbers).predict(np.zeros((4, 2))).shape == (4,)


# --- files ---


def state(model: BagRegressor) -> dict[str, Any]:
    values = dict(vars(model))
    values["feature_names_in_"] = list(values.get("feature_names_in_", ()))
    layers = values.pop("layers_")
    return {**values, "sizes": layers.sizes, "bytes": [m.tobytes() for m in layers.matrices]}


def test_save_and_load_plain_rows_and_aggregates(
    make_release: Callable[..., Any], table: pa.Table, tmp_path: Path
) -> None:
    pandas = pytest.importorskip("pandas")
    X = pandas.DataFrame(np.random.default_rng(5).normal(size=(20, 2)), columns=["a", "b"])
    features = fit_features(scan(table.drop_columns(["pay"])))
    release = make_release(table, 60, 3, features)
    for name, arguments, rows in (("a", (X, np.arange(20.0)), X), ("b", (release,), table)):
        model = BagRegressor(hidden=(), epochs=5, max_norm=2.0).fit(*arguments)
        model.save(tmp_path / name)
        loaded = BagRegressor.load(tmp_path / name)
        assert state(loaded) == state(model)
        np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))


def test_a_model_is_used_without_torch(fitted: BagRegressor, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    code = (
        "import sys\n"
        "class Hidden:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'torch': raise ModuleNotFoundError('hidden', name=name)\n"
        "sys.meta_path.insert(0, Hidden())\n"
        "from labeldp import BagRegressor\n"
        "import pyarrow as pa\n"
        f"model = BagRegressor.load({str(tmp_path / 'model')!r})\n"
        "print(repr(float(model.predict(pa.table({'x': [1.0], 'kind': ['a'], 'z': [0.5]}))[0])))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    expected = fitted.predict(pa.table({"x": [1.0], "kind": ["a"], "z": [0.5]}))[0]
    assert float(done.stdout) == pytest.approx(expected, rel=1e-12)


def rewrite(path: Path, change: dict[str, Any], arrays: dict[str, Any] | None = None) -> None:
    """Change a file and seal it again, so that what is inside is looked at."""
    with np.load(path) as file:
        contents = dict(file) | (arrays or {})
    header = contents.pop("header")
    if header.any():  # else it was replaced
        document = json.loads(header.tobytes())
        document = {key: value for key, value in (document | change).items() if value != "absent"}
        document["seal"] = seal_of(document, contents)
        header = np.frombuffer(json.dumps(document).encode(), dtype=np.uint8)
    with open(path, "wb") as file:
        np.savez(file, header=header, **contents)


@pytest.mark.parametrize(
    "change",
    [
        {"format": "labeldp.linear-regressor"},
        {"format": "absent"},
        {"version": 2},
        {"input": "dense"},
        {"input": "columns"},
        {"input": "design"},
        {"shift": None},
        {"scale": 0.0},
        {"layers": 1},
        {"layers": 3},
        {"layers": "2"},
        {"category_sizes": [2]},
        {"category_sizes": None},
        {"parameters": None},
        {"parameters": {"hidden": [9]}},
        {"features": None},
        {"features": {}},
        {"spread": "absent"},
    ],
    ids=str,
)
def test_load_refuses_damaged_headers(
    fitted: BagRegressor, tmp_path: Path, change: dict[str, Any]
) -> None:
    path = tmp_path / "model"
    fitted.save(path)
    rewrite(path, change)
    with pytest.raises(InputError, match="model file"):
        BagRegressor.load(path)


def test_resealing_alone_changes_nothing(fitted: BagRegressor, tmp_path: Path) -> None:
    """Or the refusals above would show nothing."""
    path = tmp_path / "model"
    fitted.save(path)
    rewrite(path, {})
    assert state(BagRegressor.load(path)) == state(fitted)


@pytest.mark.parametrize(
    "arrays",
    [
        {"layer_0": np.zeros((3, 16), dtype=np.float32)},
        {"layer_1": np.zeros((17, 1))},
        {"layer_1": np.zeros(17, dtype=np.float32)},
        {"layer_1": np.full((17, 1), np.nan, dtype=np.float32)},
        {"layer_1": np.array([["a"]], dtype=object)},
        {"header": np.zeros(5, dtype=np.uint8)},
    ],
    ids=range(6),
)
def test_load_refuses_damaged_arrays(
    fitted: BagRegressor, tmp_path: Path, arrays: dict[str, Any]
) -> None:
    path = tmp_path / "model"
    fitted.save(path)
    rewrite(path, {}, arrays)
    with pytest.raises(InputError, match="model file"):
        BagRegressor.load(path)


def test_load_refuses_other_files(fitted: BagRegressor, tmp_path: Path) -> None:
    path = tmp_path / "model"
    fitted.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    damaged = [b"", b"{}", b"\x93NUMPY\x01\x00", whole[:100], whole[:-30], whole[30:]]
    for _ in range(40):  # one byte flipped: the checksums notice, or it did not matter
        at = int(rng.integers(len(whole)))
        damaged.append(whole[:at] + bytes([whole[at] ^ 0x5A]) + whole[at + 1 :])
    for content in damaged:
        path.write_bytes(content)
        with suppress(InputError):
            assert state(BagRegressor.load(path)) == state(fitted)
    with np.load(_write(path, whole)) as file:
        np.savez_compressed(tmp_path / "small.npz", **dict(file))
    assert zipfile.is_zipfile(tmp_path / "small.npz")
    with pytest.raises(InputError, match="model file"):
        BagRegressor.load(tmp_path / "small.npz")
    with pytest.raises(InputError, match="cannot read"):
        BagRegressor.load(tmp_path / "absent")


def _write(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path
