"""labeldp inspect"""

from __future__ import annotations

from typing import Any

from labeldp.cli import options
from labeldp.cli.plan import NoIntercept

_WARNING = (
    "FOR THE CURATOR ONLY: residual_ms, r_squared and max_bags below are computed from the raw "
    "labels and are NOT private. Do not publish them or choose parameters by them."
)


def inspect(
    data: options.Data,
    label: options.Label,
    label_range: options.LabelRange,
    epsilon: options.Epsilon = 1.0,
    delta: options.Delta = 1e-6,
    features: options.Features = None,
    categorical: options.Categorical = None,
    numeric: options.Numeric = None,
    drop: options.Drop = None,
    clip: options.Clip = False,
    drop_missing_labels: options.DropMissing = False,
    min_count: options.MinCount = None,
    no_intercept: NoIntercept = False,
    max_leverage: options.MaxLeverage = None,
    strict: options.Strict = False,
    threads: options.Threads = 0,
    engine: options.EngineName = "local",
    checkpoint: options.Checkpoint = None,
    json: options.Json = False,
) -> None:
    """Look at a table with raw labels: for the curator's eyes only."""
    from labeldp.cli.output import emit_json, note
    from labeldp.inspection import inspect as look

    runner = options.make_engine(engine, threads, checkpoint)
    source = options.source(
        data,
        label=label,
        label_range=label_range,
        features=features,
        categorical=categorical,
        numeric=numeric,
        drop=drop,
        clip=clip,
        drop_missing_labels=drop_missing_labels,
        engine=engine,
    )
    found = look(
        source,
        epsilon=epsilon,
        delta=delta,
        min_count=min_count,
        intercept=not no_intercept,
        max_leverage=max_leverage,
        strict=strict,
        engine=runner,
    )
    note(_WARNING)
    if json:
        emit_json({"warning": _WARNING, **found})
    else:
        _show(found)


def _show(found: dict[str, Any]) -> None:
    from labeldp.cli.output import WORDS, emit_facts, emit_table, number

    emit_facts(
        "The table",
        [
            ("rows", number(found["rows"])),
            ("raw columns used", len(found["columns"])),
            ("design columns, independent", f"{found['features']}, {found['rank']}"),
            ("residual mean square γ (private)", number(found["residual_ms"], 6)),
            ("R² (private)", number(found["r_squared"])),
            ("largest leverage", number(found["max_leverage"])),
        ],
    )
    emit_table(
        "Columns",
        ["name", WORDS, "design columns"],
        [[column["name"], column["kind"], column["width"]] for column in found["columns"]],
    )
    emit_table(
        "Rare levels cost privacy (merge them: --min-count)",
        ["level", "rows"],
        [[level["level"], number(level["rows"])] for level in found["costliest_levels"]],
    )
    emit_table(
        "Rows with the largest leverage cost most",
        ["row", "leverage", WORDS],
        [
            [number(row["row"]), number(row["leverage"]), f"because of {row['column']}"]
            for row in found["costliest_rows"]
        ],
    )
    emit_table(
        f"Most bags at ε = {found['epsilon']:g}, δ = {found['delta']:g}, were γ public",
        ["accountant", "bags", WORDS],
        [
            [name, number(answer["max_bags"]), answer.get("reason", "")]
            for name, answer in found["accountants"].items()
        ],
    )
    sampled = found["bags"]["sampled-wtd-flag"]
    noise = found["bags"]["sampled-noisy-wtd-lag"]["noise_std"]
    least = sampled.get("reason") or f"{number(sampled['min_bag_size'])} rows"
    emit_facts(
        "Bags at that budget",
        [
            ("sampled-wtd-flag, smallest bag without noise", least),
            *(
                (f"sampled-noisy-wtd-lag, noise in bags of {size}", f"deviation {number(std)}")
                for size, std in noise.items()
            ),
        ],
    )
    for text in found["notes"]:
        print(text)
