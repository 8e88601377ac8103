"""Numbers between NumPy and Arrow stay what they are."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pytest

from labeldp.arrow_util import arrow_numbers, arrow_words, no_value, numpy_numbers

INTEGERS = [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]


@pytest.mark.parametrize("kind", [*INTEGERS, "float16", "float32", "float64"])
def test_there_and_back(kind: str) -> None:
    numbers = np.arange(100).astype(kind)
    for values in (numbers, numbers[::3], numbers[:0]):
        array = arrow_numbers(values)
        assert array.equals(pa.array(np.ascontiguousarray(values)))
        for part in (array, array[2:7], array[5:5]):
            found = numpy_numbers(part)
            assert found.dtype == np.dtype(kind)
            assert np.array_equal(found, part.to_numpy(zero_copy_only=False))


def test_numbers_are_not_copied() -> None:
    values = np.arange(10.0)
    assert np.shares_memory(values, numpy_numbers(arrow_numbers(values)))


@pytest.mark.parametrize("kind", [*INTEGERS, "float16", "float32", "float64"])
def test_nulls_are_as_arrow_has_them(kind: str) -> None:
    one, two, three = np.array([1, 2, 3], dtype=kind)
    array = pa.array([None, one, None, two, three, None], pa.from_numpy_dtype(kind))
    for part in (array, array[1:], array[2:5], array[3:5], array[:1]):
        found, expected = numpy_numbers(part), part.to_numpy(zero_copy_only=False)
        assert found.dtype == expected.dtype
        assert np.array_equal(found, expected, equal_nan=True)


def test_truth_values_are_as_arrow_has_them() -> None:
    array = pa.array([True, False, True, True])
    for part in (array, array[1:3], array[:0]):
        assert numpy_numbers(part).tolist() == part.to_pylist()


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_words_are_as_arrow_has_them(kind: pa.DataType) -> None:
    for words in (["", "ä", "true"], []):
        assert arrow_words(words, kind).equals(pa.array(words, kind))
    assert no_value(kind).equals(pa.scalar(None, kind))


@pytest.mark.skipif(
    sys.platform != "linux" or {"mimalloc", "jemalloc"} - set(pa.supported_memory_backends()),
    reason="Arrow has one of two allocators alone, or no large pages to ask for",
)
@pytest.mark.parametrize(
    ("chosen", "used"), [(None, "jemalloc"), ("mimalloc", "mimalloc"), ("system", "system")]
)
def test_passes_ask_for_no_large_pages_unless_told_to(chosen: str | None, used: str) -> None:
    program = "import pyarrow as pa; from labeldp import LocalEngine; LocalEngine(); "
    program += "print(pa.default_memory_pool().backend_name)"
    given = {k: v for k, v in os.environ.items() if k != "ARROW_DEFAULT_MEMORY_POOL"}
    given |= {} if chosen is None else {"ARROW_DEFAULT_MEMORY_POOL": chosen}
    run = [sys.executable, "-c", program]
    done = subprocess.run(run, env=given, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == used
