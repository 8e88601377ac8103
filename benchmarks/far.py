"""How far it goes: a table as if it had 10¹² rows, by merging the sums of a small one with itself.

python benchmarks/far.py [--rows 131072] [--far 1000000000000] [--docs docs/spark-scale.md] [--json]

The state of an accumulator does not say which rows it is made of. So the state of a table, merged
with itself forty times, is that of a table with 2⁴⁰ times the rows. Everything from the feature
map to the certificate runs on it as it would on a cluster; only reading is left out.

sums       parts of the table merged in several orders have one digest; as if there were `far` rows
           the sums are those of the small table times 2^k, compared in Python's integers
plan       planned, released and verified at that size
network    what a task sends to the driver, in bytes as Spark would carry them
"""

from __future__ import annotations

import argparse
import json
import math
import pickle
import random
import tempfile
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
from synthetic import Table, table_named
from timing import once

from labeldp import Plan, Source, plan, scan, verify
from labeldp.exact.gram import FeatureGram, GramAccumulator
from labeldp.exact.label_sums import LabelCrossProducts, LabelMoments
from labeldp.passes.accumulator import Accumulator, RunPass, combine
from labeldp.passes.engine import Progress, quiet
from labeldp.spark.engine import part_states

TABLES = ("census", "criteo", "dense-20")
TASKS = 512
"""The most tasks that a pass has (`labeldp.spark.engine`)."""
ASKED: dict[str, Any] = {
    "mechanism": "shaped-flag", "epsilon": 1.0, "delta": 1e-13, "force": True,
}  # fmt: skip
BEGIN, END = "<!-- made by benchmarks/far.py -->", "<!-- end -->"


@dataclass(frozen=True)
class AsIf:
    """An engine for which every table has 2**doublings times the rows that it has."""

    doublings: int
    sent: dict[str, int] = field(default_factory=dict)
    """Bytes of a state, by the pass."""
    progress: Progress = quiet
    threads: int = 0

    @property
    def run_pass(self) -> RunPass:
        return self._run

    def _run(self, task: str, source: Source, /, *accumulators: Accumulator[Any]) -> Any:
        needs = combine([accumulator.requirements for accumulator in accumulators])
        check = source.label_check() if needs.labels else None
        totals = [accumulator.new() for accumulator in accumulators]
        states, flags = part_states(totals, needs, source)
        self.sent[task] = max(self.sent.get(task, 0), carried(states))
        for total, state in zip(totals, states, strict=True):
            total.merge(state)
        for _ in range(self.doublings):
            pairs = zip(totals, accumulators, strict=True)
            totals = [doubled(total, accumulator.new()) for total, accumulator in pairs]
        if check is not None:
            check.raised.update(flags)
            check.finish()
        results = [total.result(int) for total in totals]
        return results[0] if len(results) == 1 else tuple(results)


class Uncounted:
    """A reader whose rows nobody has counted yet, as those of a cluster's table."""

    rows = None

    def __init__(self, reader: Any) -> None:
        self._reader = reader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._reader, name)


def carried(states: Sequence[Any]) -> int:
    """Bytes of an answer on its way, packed as `labeldp.spark.engine` packs it."""
    return len(zlib.compress(pickle.dumps((list(states), [])), 1))


def doubled(total: Accumulator[Any], twice: Accumulator[Any]) -> Accumulator[Any]:
    """Return `twice`, an empty accumulator, with all rows of the total and the same again."""
    state = total.state()
    twice.merge(state)
    twice.merge(state)
    return twice


def merged(accumulator: Accumulator[Any], states: Sequence[Any]) -> Any:
    """The states one after another, as the driver merges them."""
    total = accumulator.new()
    for state in states:
        total.merge(state)
    return total.result(int)


def in_pairs(accumulator: Accumulator[Any], states: Sequence[Any]) -> Any:
    """The states as a tree, as many machines would merge them."""
    while len(states) > 1:
        pairs = [states[place : place + 2] for place in range(0, len(states), 2)]
        states = [reduce(lambda one, two: _both(accumulator, one, two), pair) for pair in pairs]
    return merged(accumulator, states)


def _both(accumulator: Accumulator[Any], one: Any, two: Any) -> Any:
    total = accumulator.new()
    total.merge(one)
    total.merge(two)
    return total.state()


def digests(parts: Sequence[Source], made: Plan) -> dict[str, set[str]]:
    """The digests of sums that were merged forwards, backwards, shuffled and in pairs."""
    found: dict[str, set[str]] = {"features": set(), "labels": set()}
    accumulators = (GramAccumulator(made.features), LabelCrossProducts(made.features, made.labels))
    for accumulator, name in zip(accumulators, found, strict=True):
        needs = accumulator.requirements
        states = [part_states([accumulator], needs, part)[0][0] for part in parts]
        shuffled = random.Random(1).sample(states, len(states))
        sums = [merged(accumulator, order) for order in (states, states[::-1], shuffled)]
        found[name] = {_digest(each) for each in (*sums, in_pairs(accumulator, states))}
    return found


def part_of(data: pa.Table, table: Table, number: int, of: int) -> Source:
    """Some of the rows; no two parts are of one length."""
    start, end = (data.num_rows * at * (at + of) // (2 * of**2) for at in (number, number + 1))
    some = data.slice(start, end - start)
    return scan(some, label=table.label, label_range=table.label_range)


def _digest(sums: FeatureGram | LabelMoments) -> str:
    if isinstance(sums, FeatureGram):
        return sums.digest()
    return repr((sums.rows, list(sums.cross), sums.total, sums.square))


def exact_times(source: Source, made: Plan, doublings: int) -> tuple[bool, int]:
    """Whether all sums are those of the table times 2**doublings; bits of the largest of 64."""
    accumulators = (GramAccumulator(made.features), LabelCrossProducts(made.features, made.labels))
    gram, moments = AsIf(0).run_pass("label sums", source, *accumulators)
    far_gram, far_moments = AsIf(doublings).run_pass("label sums", source, *accumulators)
    every, factor = range(gram.width), 2**doublings
    same = bool((far_gram.exact(every) == gram.exact(every) * factor).all())
    same &= bool((far_moments.cross == moments.cross * factor).all())
    same &= far_moments.square == moments.square * factor
    same &= far_gram.rows == gram.rows * factor
    largest = int(abs(far_gram.counts).max(initial=0))
    return same, largest.bit_length()


def measure(name: str, rows: int, far: int) -> dict[str, Any]:
    """One table, small and as if it were far larger."""
    table, engine = table_named(name), AsIf(math.ceil(math.log2(far / rows)))
    data = pa.Table.from_batches(table.batches(rows))
    counted = scan(data, label=table.label, label_range=table.label_range)
    source = replace(counted, reader=Uncounted(counted.reader))
    time, made = once(partial(plan, source, engine=engine, **ASKED))
    exact, bits = exact_times(source, made, engine.doublings)
    parts = [part_of(data, table, number, of=64) for number in range(64)]
    found = digests(parts, plan(counted, **ASKED))
    with tempfile.TemporaryDirectory() as folder:
        made.release_to(Path(folder) / "release", source, engine=engine)
        valid = verify(Path(folder) / "release").valid
    claim = made.claim.to_json()
    return {
        "table": name,
        "rows": rows * 2**engine.doublings,
        "small_rows": rows,
        "design_columns": len(made.features.all_names),
        "one_digest": all(len(each) == 1 for each in found.values()),
        "exact": exact,
        "largest_bits": bits,
        "epsilon": made.claim.epsilon,
        "delta": made.claim.delta_at(made.claim.epsilon),
        "gap": claim["shape"]["gap"],
        "noise": claim["shape"]["noise_std"],
        "valid": valid,
        "plan_seconds": time.wall,
        "state_bytes": max(engine.sent.values()),
        "task": max(engine.sent, key=lambda task: engine.sent[task]),
        "passes": len(engine.sent),
        "whole_state_bytes": GramAccumulator(made.features).requirements.state_bytes,
        "bytes_per_row": data.nbytes / rows,
    }


def run(rows: int, far: int, tables: Sequence[str] = TABLES) -> dict[str, Any]:
    records = [measure(name, rows, far) for name in tables]
    return {"benchmark": "far", "records": records, "notes": []}


def page(records: list[dict[str, Any]]) -> str:
    """The tables of docs/spark-scale.md: what was measured, and what follows by arithmetic."""
    return "\n".join([*_measured(records), "", *_computed(records)])


def _measured(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| **measured**: table | design columns | rows, as if | sums exact | one digest in any "
        "order | largest 64-bit sum | ε, δ of the plan | gap | verifies | a task sends |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for each in records:
        lines.append(
            f"| {each['table']} | {each['design_columns']:,} | {each['rows']:.3g} | "
            f"{_yes(each['exact'])} | {_yes(each['one_digest'])} | {each['largest_bits']} of 63 "
            f"bits | {each['epsilon']:g}, {each['delta']:.1g} | {each['gap']:.3f} | "
            f"{_yes(each['valid'])} | {_size(each['state_bytes'])} |"
        )
    return lines


def _computed(records: list[dict[str, Any]]) -> list[str]:
    lines = [
        f"| **computed**: table | {TASKS} tasks send, in the largest pass | their sums of "
        "features, uncompressed | its rows, decoded |",
        "|---|---|---|---|",
    ]
    for each in records:
        raw = each["rows"] * each["bytes_per_row"]
        lines.append(
            f"| {each['table']} | {_size(TASKS * each['state_bytes'])} | "
            f"{_size(TASKS * each['whole_state_bytes'])} | {_size(raw)} |"
        )
    return lines


def _yes(so: bool) -> str:
    return "yes" if so else "**no**"


def _size(size: float) -> str:
    power = min(5, int(math.log(size, 1000)))
    return f"{size / 1000**power:.3g} {('B', 'kB', 'MB', 'GB', 'TB', 'PB')[power]}"


def write(path: Path, records: list[dict[str, Any]]) -> None:
    """Put the tables between the marks of a page."""
    head, _, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    tail = rest.partition(END)[2]
    path.write_text(f"{head}{BEGIN}\n{page(records)}\n{END}{tail}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=1 << 17)
    parser.add_argument("--far", type=int, default=10**12)
    parser.add_argument("--docs", type=Path, help="a page to write the tables into")
    parser.add_argument("--json", action="store_true")
    chosen = parser.parse_args()
    found = run(chosen.rows, chosen.far)
    print(json.dumps(found, indent=1) if chosen.json else page(found["records"]))
    if chosen.docs:
        write(chosen.docs, found["records"])


if __name__ == "__main__":
    main()
