"""What data there are: one line for each, which its module declares."""

from __future__ import annotations

from labeldp.errors import InputError
from labeldp_paper.datasets import (
    census,
    criteo,
    flights,
    ipums,
    synthetic_census,
    synthetic_criteo,
)
from labeldp_paper.datasets.declaration import Dataset

_ALL = (
    census.DATASET,
    ipums.DATASET,
    criteo.DATASET,
    flights.DATASET,
    synthetic_census.DATASET,
    synthetic_census.LABELLED,
    synthetic_criteo.DATASET,
)

DATASETS = {dataset.name: dataset for dataset in _ALL}
"""Every dataset by name."""


def find(name: str) -> Dataset:
    """Return the dataset of this name."""
    if name not in DATASETS:
        raise InputError(f"there is no dataset {name!r}; there are {', '.join(DATASETS)}")
    return DATASETS[name]
