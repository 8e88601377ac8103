"""Every inverse question is answered in `accounting/invert.py`: nothing else searches for one."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import labeldp

ROOT = Path(labeldp.__file__).parent
ROOMS = "accounting", "release", "mechanisms", "planning", "signoff", "ledger"
"""Those that know of a guarantee."""
INVERT = "accounting/invert.py"

FINDERS = {
    "bisect", "bisect_left", "bisect_right", "brenth", "brentq", "dropwhile", "fixed_point",
    "fmin", "fsolve", "minimize", "minimize_scalar", "newton", "ridder", "root_scalar",
    "takewhile", "toms748",
}  # fmt: skip

OTHER_LOOPS = {
    # δ(ε) itself, whose integrals and suprema are refined until they agree
    "accounting/contour.py _trapezoid": "halves the step of an integral",
    "accounting/random_mu.py _Integral.value": "halves the step of an integral",
    "accounting/family.py _certify": "branch and bound of a supremum",
    "accounting/family.py _in_vain": "counts how often its cells are cut",
    "accounting/family.py _cut": "cuts them so often",
    "accounting/compose.py _certify": "branch and bound of a supremum",
    "accounting/radial.py _bessel_ratio": "a recurrence",
    # closed forms, a few doubles away from what they stand for
    "accounting/draw.py affordable_delta": "rounds a quotient to the private side",
    "accounting/mixture.py fraction_of": "rounds a quotient to the number of rows it stands for",
    # utility: what is chosen is priced afterwards, by `invert` or by its curve
    "accounting/radial.py product_quantile": "a quantile of the error that is forecast",
    "mechanisms/workbench/forecasting.py bag_sizes": "lists sizes of bags to compare",
    "mechanisms/wtd_flag/sizing.py choose_bags": "takes more bags while a forecast is better",
    "mechanisms/workbench/surveying.py survey": "leaves columns out while a leverage is too large",
    "planning/comparison.py simulated_mse": "a mean over synthetic labels",
    "mechanisms/workbench/trial.py Fit.sums": "mends a fit by further passes",
    # draws, repeated
    "mechanisms/workbench/bags.py distinct": "until there are enough different rows",
    "mechanisms/sampled_noisy_wtd_lag/plan.py _drawn": "until a draw of bags is private",
    "mechanisms/sampled_noisy_wtd_lag/weights.py draw_weights": "until every bag is private",
    "signoff/auditing.py _fill": "until time is up",
    # points of a curve for other accountants
    "ledger/privacy_loss.py _nodes": "cuts pieces of a curve that bend",
    "ledger/privacy_loss.py _hull": "walks along a convex hull",
    # bytes
    "release/statement.py _sha256": "reads a file",
    "release/parquet.py _pages": "reads a file",
    "release/parquet.py _struct": "reads fields",
    "release/parquet.py _whole": "reads a number",
}
"""What loops without a known end, or so many times over, and why that is no inverse question."""


def searches(tree: ast.AST, inside: str = "") -> Iterator[str]:
    """The functions that loop with no known end, or again and again, or find a root or a place."""
    for node in ast.iter_child_nodes(tree):
        here = inside
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            here = f"{inside}.{node.name}".strip(".")
        if (
            isinstance(node, ast.While)
            or (isinstance(node, ast.For) and getattr(node.target, "id", "") == "_")
            or (isinstance(node, ast.Name) and node.id in FINDERS)
            or (isinstance(node, ast.Attribute) and node.attr in FINDERS)
        ):
            yield here
        yield from searches(node, here)


def trees() -> Iterator[tuple[str, ast.Module]]:
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            yield name, ast.parse(path.read_text(encoding="utf-8"))


def test_nothing_else_searches() -> None:
    """A new loop is listed with its reason, or asks `invert`; one that is gone leaves the list."""
    found = {f"{name} {where}" for name, tree in trees() for where in searches(tree)}
    assert {place for place in found if not place.startswith(INVERT)} == set(OTHER_LOOPS)
    assert any(place.startswith(INVERT) for place in found)
    assert all(OTHER_LOOPS.values())


def test_the_tools_of_the_search_are_used_by_it_alone() -> None:
    for name, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module == "labeldp.accounting.calibrate":
                raise AssertionError(f"{name} imports from invert: ask invert.epsilon or limit")
            if isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "invert":
                assert node.attr in ("epsilon", "limit"), f"{name} uses invert.{node.attr}"


def test_a_search_is_seen_wherever_it_stands() -> None:
    code = """
from scipy import optimize
class A:
    def doubled(self):
        while True: pass
def halved():
    for _ in range(60): pass
def rooted():
    return optimize.brentq(f, 0, 1)
def scanned():
    def inner():
        return takewhile(f, sizes)
def plain():
    return [n for n in range(3)]
"""
    found = list(searches(ast.parse(code)))
    assert found == ["A.doubled", "halved", "rooted", "scanned.inner"]
