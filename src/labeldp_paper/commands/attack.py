"""labeldp attack"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from labeldp.cli.options import Command, json_option, option
from labeldp.cli.output import REMARKS, emit_json, emit_table

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS, _BAGS, _BAG_SIZE = 2000, 20, 50


@click.command(cls=Command)
@option("--epsilon", type=float, default=1.0, help="Privacy budget ε (default: 1).")
@option("--delta", type=float, default=1e-6, help="Privacy budget δ (default: 1e-6).")
@option(
    "--seed",
    type=click.IntRange(min=0),
    default=0,
    help="Seed of the synthetic table and the bags (default: 0).",
)
@json_option
def attack(epsilon: float, delta: float, seed: int, as_json: bool) -> None:
    """Show why plain sums are not private: recover a label from them, on a synthetic table.

    The attacker knows all labels of a bag but one. The same attack is then tried on a private
    release of the same bags' size.
    """
    import pyarrow as pa

    from labeldp_paper.datasets.demo_table import CENSUS_RANGE, census_like
    from labeldp_paper.naive.sums import NAIVE

    table = pa.Table.from_batches(list(census_like(_ROWS, seed)))
    found = [_on_sums(table, name, seed) for name in NAIVE]
    found.append(_on_private(table, epsilon, delta, seed))
    if as_json:
        emit_json({"data": "synthetic", "label_range": list(CENSUS_RANGE), "attacks": found})
        return
    emit_table(
        "A bag's last label, computed from all the others (synthetic table, labels 0 … 51)",
        ["mechanism", "true label", "recovered", "error", REMARKS],
        [
            [
                one["mechanism"],
                f"{one['true_label']:g}",
                f"{one['recovered']:.4g}",
                f"{one['error']:.3g}",
                "recovered" if one["succeeded"] else "no better than a guess",
            ]
            for one in found
        ],
    )


def _on_sums(table: pa.Table, mechanism: str, seed: int) -> dict[str, Any]:
    """Subtract the known labels of a bag from its sum."""
    from labeldp_paper.naive.sums import naive_sums, recover

    source = _source(table)
    sums = naive_sums(
        source, mechanism=mechanism, bags=_BAGS, bag_size=_BAG_SIZE, not_private=True, bag_seed=seed
    )
    labels = table["WKSWORK1"].to_numpy()
    bag = sums.bag_table.column("row").to_numpy()[:_BAG_SIZE]
    guess = recover(float(sums.labels[0]), labels[bag[1:]])
    return _outcome(mechanism, float(labels[bag[0]]), guess)


def _on_private(table: pa.Table, epsilon: float, delta: float, seed: int) -> dict[str, Any]:
    """Subtract the known labels, with their public weights, and divide by the last weight."""
    from labeldp import plan
    from labeldp_paper.naive.sums import recover

    source = _source(table)
    made = plan(
        source,
        epsilon=epsilon,
        delta=delta,
        mechanism="sampled-noisy-wtd-lag",
        bags=_BAGS,
        bag_size=_BAG_SIZE,
        bag_seed=seed,
        force=True,  # it is attacked, not fitted
    )
    released = made.release(source)
    labels = table["WKSWORK1"].to_numpy()
    assert released.bag_table is not None
    row, weight = (released.bag_table.column(c).to_numpy()[:_BAG_SIZE] for c in ("row", "weight"))
    guess = recover(float(released.labels[0]), weight[1:] * labels[row[1:]]) / float(weight[0])
    return _outcome(made.claim.mechanism, float(labels[row[0]]), guess)


def _source(table: pa.Table) -> Any:
    from labeldp import scan
    from labeldp_paper.datasets.demo_table import CENSUS_RANGE

    return scan(table, label="WKSWORK1", label_range=CENSUS_RANGE)


def _outcome(mechanism: str, true_label: float, guess: float) -> dict[str, Any]:
    error = abs(guess - true_label)
    return {
        "mechanism": mechanism,
        "true_label": true_label,
        "recovered": guess,
        "error": error,
        "succeeded": error < 0.5,
    }
