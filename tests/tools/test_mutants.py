"""The mutations are what their names say, the sample is the seed's, and trials can tell."""

from __future__ import annotations

import textwrap
from functools import cache
from pathlib import Path

import pytest
from tools.mutants.__main__ import report
from tools.mutants.guards import GUARDS, guards
from tools.mutants.known import known
from tools.mutants.operators import Mutation, mutations
from tools.mutants.sample import ELSEWHERE, PACKAGE, ROOMS, files, sample
from tools.mutants.trial import Copy

ROOT = Path(__file__).parents[2]

CASES = {
    "a < b": {"(a > b)"},
    "a <= 3": {"(a >= 3)", "(a < 3)", "(4)", "(2)", "(6)"},
    "a - b": {"(a + b)"},
    "a * b": {"(a / b)"},
    "a * a": {"(a / a)", "(a)"},
    "a ** 2": {"(a)", "(3)", "(1)", "(4)"},
    "math.sqrt(a)": {"(a)"},
    "not a": {"(a)"},
    "a and b": {"(a)", "(b)"},
    "min(a, b)": {"(max(a, b))"},
    "math.floor(a)": {"(math.ceil)"},
    "math.nextafter(a, b)": {"(math.nextafter(a, -b))", "(math.nextafter(b, a))"},
    "f(a, b)": {"(f(b, a))"},
    "0.5": {"(1.0)"},
    "a.upper": {"(a.lower)"},
    "a if b else c": {"(a)", "(c)"},
    "f'{a + b}'": set(),
    "'a' + b": set(),
}


@pytest.mark.parametrize("code", CASES)
def test_an_expression_goes_wrong_in_these_ways(code: str) -> None:
    source = f"def f() -> None:\n    return {code}\n".encode()
    found = list(mutations("m.py", source))
    assert {mutation.after for mutation in found} == CASES[code]
    for mutation in found:
        assert mutation.apply(source) != source
        compile(mutation.apply(source), "m.py", "exec")


def test_checks_and_sums_are_left_out_but_nothing_that_only_people_read() -> None:
    source = textwrap.dedent('''
        def f(ε: int = 1) -> int:
            """1 + 1."""
            check(ε)
            total += ε
            if ε: raise ValueError(1 + 1)

        def __repr__(self): return 1 + 1
    ''').encode()
    found = {(mutation.before, mutation.after) for mutation in mutations("m.py", source)}
    assert found == {
        ("check(ε)", "pass"),
        ("total += ε", "pass"),
        ("raise ValueError(1 + 1)", "pass"),
        ("1", "(2)"),
    } | {("1", "(2)")}


@cache
def every(path: str, source: bytes) -> tuple[Mutation, ...]:
    """All of a module, found once."""
    return tuple(mutations(path, source))


def test_a_sample_is_that_of_its_seed_and_has_every_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tools.mutants.sample.mutations", every)
    drawn = sample(ROOT, list(ROOMS), 60, seed=1)
    assert drawn == sample(ROOT, list(ROOMS), 60, seed=1)
    assert drawn != sample(ROOT, list(ROOMS), 60, seed=2)
    assert 55 <= len(drawn) <= 65
    for room in ROOMS:
        paths = {path.relative_to(ROOT / PACKAGE).as_posix() for path in files(ROOT, room)}
        assert paths & {mutation.path for mutation in drawn}, room
    assert len({(m.path, m.start, m.end) for m in drawn}) == len(drawn)


def test_every_module_has_guards_and_every_guard_and_exception_is_there() -> None:
    for room in ROOMS:
        for path in files(ROOT, room):
            assert guards(path.relative_to(ROOT / PACKAGE).as_posix())
    for tests in GUARDS.values():
        assert all((ROOT / test).exists() for test in tests)
    assert all((ROOT / PACKAGE / name).exists() for name in ELSEWHERE)


def test_what_is_known_is_about_the_code_as_it_stands() -> None:
    entries = known()
    for entry in entries:
        found = every(entry.path, (ROOT / PACKAGE / entry.path).read_bytes())
        assert any(entry.is_about(mutation) for mutation in found), entry
        assert entry.why


def test_a_trial_tells_a_test_that_notices_from_one_that_does_not(tmp_path: Path) -> None:
    """A tree of one module and two tests."""
    root = tmp_path / "root"
    module = root / PACKAGE / "sum.py"
    module.parent.mkdir(parents=True)
    module.write_text("def total(a: int, b: int) -> int:\n    return a + b\n")
    (module.parent / "__init__.py").touch()
    (root / "tests").mkdir()
    for name, second in (("blind", 0), ("sees", 2)):
        test = f"from labeldp.sum import total\n\ndef test(): assert total(1, {second}) > 0\n"
        (root / "tests" / f"test_{name}.py").write_text(test)
    (wrong,) = mutations("sum.py", module.read_bytes())
    copy = Copy(root, tmp_path)
    assert not copy.run(wrong, ["tests/test_blind.py"], 100).noticed
    assert copy.run(wrong, ["tests/test_sees.py"], 100).by == "tests/test_sees.py::test"
    assert copy.run(wrong, ["tests/test_sees.py"], 0.01).by == "time"
    assert copy.durations(["tests/test_sees.py"]), "nothing is wrong any more"


def test_a_sample_for_which_there_was_no_time_is_no_success() -> None:
    assert not report([], [], skipped=3)
    assert report([], [], skipped=0)
