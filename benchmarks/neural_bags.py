"""One epoch of the default network over weighted bags, on one core, against a plain torch loop.

    python benchmarks/neural_bags.py [--bags 4096] [--json]

Bags of 256 rows with 71 columns: 68 one-hot levels of 5 categories, and 3 numbers. The plain
loop holds the one-hot matrix dense and takes the network over one bag at a time, a step per 32
bags. Both see the same rows and use Adam. Processor time is counted, so neighbours matter less;
the ratio matters most.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import time
from typing import Any

import numpy as np
from report import print_report
from scipy.sparse import csr_array

from labeldp.learners.bags import WeightedBags
from labeldp.learners.models import NetworkOptions

ROWS_PER_BAG, SIZES, NUMBERS = 256, (4, 8, 12, 20, 24), 3
HIDDEN, BATCH_ROWS = (128, 64), 8192


def make_bags(count: int) -> WeightedBags:
    rng = np.random.default_rng(0)
    rows = count * ROWS_PER_BAG
    weights = rng.standard_normal(rows, dtype=np.float32)
    firsts = np.cumsum((0, *SIZES[:-1]))
    levels = np.column_stack([rng.integers(0, size, rows) for size in SIZES]) + firsts
    places = np.broadcast_to(np.arange(NUMBERS) + sum(SIZES), (rows, NUMBERS))
    columns = np.hstack([levels, places])
    values = np.ones(columns.shape, dtype=np.float32)
    values[:, len(SIZES) :] = rng.standard_normal((rows, NUMBERS), dtype=np.float32)
    ends = np.arange(rows + 1) * columns.shape[1]
    return WeightedBags(
        inputs=csr_array((values.ravel(), columns.ravel(), ends)),
        weights=weights,
        offsets=np.arange(0, rows + 1, ROWS_PER_BAG),
        labels=rng.normal(size=count),
    )


def ours(bags: WeightedBags) -> float:
    """Rows per second of processor time of the learner: gathering, shuffling and all."""
    from labeldp.learners.training import train

    options = NetworkOptions(hidden=HIDDEN, epochs=1, seed=0)
    start = time.process_time()
    train(bags, options, lambda _: None)
    return bags.rows / (time.process_time() - start)


def plain(bags: WeightedBags) -> float:
    """The same for the obvious loop; building the dense matrix is not counted."""
    import torch

    dense = torch.from_numpy(bags.inputs.toarray())
    weights = torch.from_numpy(bags.weights)
    labels = torch.tensor(bags.labels, dtype=torch.float32)
    network = torch.nn.Sequential(
        torch.nn.Linear(dense.shape[1], HIDDEN[0]),
        torch.nn.ReLU(),
        torch.nn.Linear(*HIDDEN),
        torch.nn.ReLU(),
        torch.nn.Linear(HIDDEN[1], 1),
    )
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-3)
    per_batch = BATCH_ROWS // ROWS_PER_BAG
    start = time.process_time()
    for first in range(0, bags.bags, per_batch):
        optimizer.zero_grad()
        loss = torch.zeros(())
        for bag in range(first, min(first + per_batch, bags.bags)):
            rows = slice(bag * ROWS_PER_BAG, (bag + 1) * ROWS_PER_BAG)
            loss = loss + (labels[bag] - weights[rows] @ network(dense[rows])[:, 0]) ** 2
        (loss / per_batch).backward()
        optimizer.step()
    return bags.rows / (time.process_time() - start)


def run(count: int, rounds: int) -> dict[str, Any]:
    found: dict[str, Any] = {"benchmark": "neural_bags", "records": [], "notes": []}
    if importlib.util.find_spec("torch") is None:
        return found | {"notes": ["torch is not installed; pip install 'labeldp[torch]'"]}
    import torch

    torch.set_num_threads(1)
    bags = make_bags(count)
    ours(make_bags(64)), plain(make_bags(64))  # warm up
    rates = [(ours(bags), plain(bags)) for _ in range(rounds)]  # interleaved: machines are shared
    fast, slow = (max(rate) for rate in zip(*rates, strict=True))
    for way, rate in (("weighted bags", fast), ("plain loop", slow)):
        found["records"].append(
            {
                "bags": count,
                "rows": bags.rows,
                "columns": sum(SIZES) + NUMBERS,
                "way": way,
                "million_rows_per_cpu_second": rate / 1e6,
                "times_ours_cpu": fast / rate,
            }
        )
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bags", type=int, default=4096)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = run(chosen.bags, chosen.rounds)
    print(json.dumps(found, indent=1)) if chosen.json else print_report(found)


if __name__ == "__main__":
    main()
