"""Docstrings say what each argument is, in one style, and their examples are run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest

import labeldp
from labeldp import LinearRegressor, Plan, Release

FUNCTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(labeldp, name)
    for name in labeldp.__all__
    if inspect.isfunction(getattr(labeldp, name))
}
METHODS: dict[str, Callable[..., Any]] = {
    "Plan.release": Plan.release,
    "Plan.release_to": Plan.release_to,
    "Plan.save": Plan.save,
    "Plan.load": Plan.load,
    "Release.save": Release.save,
    "Release.load": Release.load,
    "Release.training_frame": Release.training_frame,
    "Release.feature_frame": Release.feature_frame,
    "LinearRegressor.fit": LinearRegressor.fit,
    "LinearRegressor.predict": LinearRegressor.predict,
    "LinearRegressor.score": LinearRegressor.score,
}
SECTIONS = ("Parameters", "Returns", "Raises", "Examples")


def test_functions_are_found() -> None:
    assert {"scan", "look", "plan", "verify"} <= set(FUNCTIONS)


@pytest.mark.parametrize("name", FUNCTIONS | METHODS)
def test_every_parameter_is_explained(name: str) -> None:
    function = (FUNCTIONS | METHODS)[name]
    said = inspect.getdoc(function) or ""
    for parameter in inspect.signature(function).parameters:
        if parameter != "self":
            assert re.search(rf"\b{parameter}\b", said), f"{name} says nothing of {parameter}"


@pytest.mark.parametrize("name", ["scan", "look", "plan", "verify", "release"])
def test_functions_have_all_sections(name: str) -> None:
    said = inspect.getdoc(FUNCTIONS[name]) or ""
    for title in SECTIONS:
        assert f"\n{title}\n{'-' * len(title)}\n" in said, f"{name} lacks {title}"
    assert not re.search(r"^\s*(Args|Returns|Raises|Example):$", said, re.MULTILINE)


@pytest.mark.parametrize(
    "module",
    sorted({inspect.unwrap(each).__module__ for each in (*FUNCTIONS.values(), Plan.release)}),
)
def test_examples_run(module: str) -> None:
    home = importlib.import_module(module)
    runner = doctest.DocTestRunner(verbose=False)
    tests = [test for test in doctest.DocTestFinder().find(home) if test.examples]
    assert tests
    for test in tests:
        runner.run(test)
    assert runner.summarize(verbose=False).failed == 0
