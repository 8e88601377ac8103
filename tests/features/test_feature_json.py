"""The JSON form is strict: anything it would not write, it does not read."""

from __future__ import annotations

import copy

import pyarrow as pa
import pytest

from labeldp.data.source import scan
from labeldp.errors import DataError, InputError
from labeldp.features.feature_map import FeatureMap
from labeldp.features.fit import fit_features


@pytest.fixture
def document():
    table = pa.table({"x": [1.0, None, 3.0], "k": ["a", "b", None]})
    return fit_features(scan(table)).keep([0, 1, 3]).to_json()


def test_reads_back(document):
    mapped = FeatureMap.from_json(document)
    assert mapped.to_json() == document
    assert mapped.kept == (0, 1, 3)


@pytest.mark.parametrize("wrong", [None, [], "text", 3, {}, {"format": "labeldp-features/99"}])
def test_other_documents(wrong):
    with pytest.raises(DataError, match="labeldp-features/1"):
        FeatureMap.from_json(wrong)


def _paths(value, path=()):
    if isinstance(value, dict):
        for key in value:
            yield (*path, key)
            yield from _paths(value[key], (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _paths(item, (*path, index))


def _at(document, path):
    for key in path:
        document = document[key]
    return document


def test_every_damaged_field_is_refused(document):
    for path in _paths(document):
        for damage in ("delete", object, float("nan"), -1.5, {"a": 1}, [[]]):
            broken = copy.deepcopy(document)
            parent = _at(broken, path[:-1])
            if damage == "delete":
                del parent[path[-1]]
            elif damage == -1.5 and path[-1] in ("low", "high"):
                continue
            else:
                parent[path[-1]] = damage
            with pytest.raises(DataError, match="features"):
                FeatureMap.from_json(broken)


def test_unknown_fields_and_bad_positions(document):
    with pytest.raises(DataError):
        FeatureMap.from_json({**document, "extra": 1})
    for kept in ([1, 0], [0, 0], [0, 99]):
        with pytest.raises(InputError):
            FeatureMap.from_json({**document, "kept": kept})
    with pytest.raises(InputError, match="keep"):
        FeatureMap.from_json({**document, "kept": None}).keep([])
