"""Plans as they are written, and the fields their certificates would claim."""

from __future__ import annotations

from functools import partial
from itertools import product
from typing import Any

from labeldp import LabelDPError, Plan, plan
from tests.golden import inside, tables

Options = dict[str, Any]

TABLE = "five thousand"
FLAG, SAMPLED, NOISY = "wtd-flag", "sampled-wtd-flag", "sampled-noisy-wtd-lag"
BUDGET: Options = {"epsilon": 1.0, "delta": 1e-5}
ROOMY: Options = {"epsilon": 20.0, "delta": 1e-3}
LARGE_BAGS: Options = {"bags": 4, "bag_size": 1000}
TIGHT: Options = {"epsilon": 0.3, "delta": 1e-8}
WIDE: Options = {"epsilon": 6.0, "delta": 1e-6}


def _floors(mechanism: str, accountant: str, **more: Any) -> dict[str, Options]:
    """A plan of every floor mode."""
    asked: dict[str, Options] = {
        "measured+added": {},
        "added": {"floor": "added"},
        "declared": {"floor": "declared", "residual_ms": 5.0},
    }
    words = "over-draw" if "over_draw" in more else ""
    return {
        f"{mechanism} {accountant} {mode} {words}".strip(): {
            "mechanism": mechanism,
            "accountant": accountant,
            "residual_guess": None if mode == "declared" else 5.0,
            **ROOMY,
            **options,
            **more,
        }
        for mode, options in asked.items()
    }


OPTIONS: dict[str, Options] = {
    **_floors(FLAG, "exact"),
    **_floors(FLAG, "exact-worst-case"),
    "wtd-flag budget": {},
    "wtd-flag tight": {**TIGHT},
    "wtd-flag bags": {"bags": 1},
    "wtd-flag megabytes": {**WIDE, "max_megabytes": 0.01},
    "wtd-flag guess": {"residual_guess": 6.5},
    "wtd-flag encoding": {
        "intercept": False,
        "standardise": False,
        "indicators": False,
        "min_count": 1700,
    },
    **_floors(SAMPLED, "exact"),
    **_floors(SAMPLED, "exact-worst-case"),
    **_floors(SAMPLED, "exact", over_draw=True, **LARGE_BAGS),
    "sampled-wtd-flag exact seeded": {"mechanism": SAMPLED, "bag_seed": 5, "bag_size": 100},
    **{
        f"{NOISY} {accountant}{' over-draw' * over_draw}": {
            "mechanism": NOISY,
            "accountant": accountant,
            "over_draw": over_draw,
        }
        for accountant, over_draw in product(("exact", "exact-worst-case"), (False, True))
    },
    f"{NOISY} fraction": {"mechanism": NOISY, "noisy_fraction": 0.4},
    f"{NOISY} noise": {"mechanism": NOISY, "noise_std": 25.0, "bag_seed": 9},
    f"{NOISY} tight": {"mechanism": NOISY, **TIGHT, "bags": 40, "bag_size": 100},
}


DEFAULTS: Options = {"mechanism": FLAG, "max_megabytes": 128.0, "winsor": 0, "force": True}
"""As they were when plans were recorded."""


def made(name: str) -> Plan:
    """The plan of this name."""
    return plan(tables.source(TABLE), **(DEFAULTS | BUDGET | OPTIONS[name]))


def documents(name: str) -> dict[str, Any]:
    """Its file, and what a certificate would claim beyond it; or how it was refused."""
    try:
        found = made(name)
    except LabelDPError as refusal:
        return {"refused": f"{type(refusal).__name__}: {refusal}"}
    document, claimed = inside.as_recorded(found.to_json()), inside.claimed(found)
    same = {key for key, value in claimed.items() if document.get(key) == value}
    assert same >= {"mechanism", "accountant", "epsilon", "delta", "bags", "curve", "floor"}
    more = {key: value for key, value in claimed.items() if key not in same}
    return {"plan": document, "claimed": without_words(more)}


WORDS = ("definition", "unit", "not_protected", "trust_model")


def without_words(claimed: dict[str, Any]) -> dict[str, Any]:
    """The same with a digest in place of the texts that every certificate has."""
    words = tables.digest([claimed[key] for key in WORDS])
    return {key: value for key, value in claimed.items() if key not in WORDS} | {"words": words}


def words() -> dict[str, Any]:
    claimed = inside.claimed(made("wtd-flag bags"))
    return {key: claimed[key] for key in WORDS}


CASES = {name: partial(documents, name) for name in OPTIONS} | {"words": words}
