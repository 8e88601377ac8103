"""The paper's tables and figures again, each from one call.

printed      what the paper prints
run          a run: its directory, size and data; cells: a grid that can be stopped and resumed
result       rows, tables and pictures as plain values; squares: tables over m and k
writing      a result as files
design       a table in memory; training: the paper's, linear; networks, lessons: its network
agreement    paper against ours, cell by cell; today: what the same ε buys by other mechanisms
statistics, table1, random_projection, figures, sampled, noisy, bags_table, real_data:
             the experiments
page         all of them as one page of documentation
"""

from __future__ import annotations

from collections.abc import Callable

from labeldp.errors import InputError
from labeldp_paper.experiments.bags_table import bags_table
from labeldp_paper.experiments.figures import figure1, figure2
from labeldp_paper.experiments.noisy import noisy
from labeldp_paper.experiments.random_projection import random_projection
from labeldp_paper.experiments.real_data import real_data
from labeldp_paper.experiments.result import Result
from labeldp_paper.experiments.run import Run
from labeldp_paper.experiments.sampled import sampled
from labeldp_paper.experiments.statistics import statistics
from labeldp_paper.experiments.table1 import table1

EXPERIMENTS: dict[str, Callable[[Run], Result]] = {
    "statistics": statistics,
    "table1": table1,
    "random-projection": random_projection,
    "figure1": figure1,
    "figure2": figure2,
    "sampled": sampled,
    "noisy": noisy,
    "bags-table": bags_table,
    "real-data": real_data,
}
"""Every experiment by name, in the order of the paper."""


def find(name: str) -> list[str]:
    """The experiments that a name stands for."""
    if name == "all":
        return list(EXPERIMENTS)
    if name not in EXPERIMENTS:
        raise InputError(
            f"there is no experiment {name!r}; there are {', '.join(EXPERIMENTS)} and all"
        )
    return [name]
