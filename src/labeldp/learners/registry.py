"""Which learners there are, and what any of them has saved."""

from __future__ import annotations

from importlib import import_module
from os import PathLike

from labeldp.common.arguments import checked
from labeldp.errors import InputError
from labeldp.learners.protocol import Learner, Model, parse, read

LEARNERS = {
    "linear": "labeldp.learners.linear",
    "neural": "labeldp.learners.network",
}
"""Where each learner declares itself, by its name on the command line."""


def find_learner(name: str) -> Learner:
    """The learner of this name."""
    if name not in LEARNERS:
        raise InputError(f"the model {name!r} is unknown; choose {' or '.join(LEARNERS)}")
    learner: Learner = import_module(LEARNERS[name]).LEARNER
    return learner


def learners() -> list[Learner]:
    """All learners."""
    return [find_learner(name) for name in LEARNERS]


@checked
def load_model(path: str | PathLike[str]) -> Model:
    """Read a model written by any learner's `save`."""
    document, arrays = read(path)
    known = learners()
    fitting = [each for each in known if each.format == document.get("format")]
    return parse((fitting or known)[0], document, arrays, path)
