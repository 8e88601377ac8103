"""Units that measure the same: 500 g and 1.5 kg, 180 cm and 1.80 m, 6 hrs and 7 hours."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from labeldp.arrow_util import numpy_numbers

_FAMILIES: dict[str, dict[float, str]] = {
    "kg": {
        1e-9: "µg ug", 1e-6: "mg", 1e-3: "g", 1: "kg kilo kilos", 1e3: "t", 0.028349523125: "oz",
        0.45359237: "lb lbs lbs. pound pounds", 6.35029318: "stone",
    },
    "m": {
        1e-3: "mm", 1e-2: "cm", 1: "m", 1e3: "km", 0.0254: "in inch inches", 0.3048: "ft feet",
        0.9144: "yd yards", 1609.344: "mi miles",
    },
    "m²": {
        1: "m² m2 qm kvm", 1e6: "km² km2", 1e4: "ha", 0.09290304: "sqft ft²",
        4046.8564224: "acres acre ac",
    },
    "l": {1e-3: "ml mL", 1e-2: "cl", 0.1: "dl", 1: "l L", 100: "hl", 1e3: "m³ m3"},
    "hours": {
        1 / 3.6e6: "ms", 1 / 3600: "s sec secs second seconds",
        1 / 60: "min mins minute minutes Min Min. Minuten",
        1: "hours hour hrs hr h Std Std. Stunden heures", 24: "days day Tage Tag jours jour",
        168: "weeks week wks wk Wochen",
    },
    "years": {
        1 / 12: "months month mos mo Monate mois", 1: "years year yrs yr yo Jahre Jahr ans an",
    },
    "MB": {1e-3: "kB KB", 1: "MB", 1e3: "GB", 1e6: "TB"},
    "kW": {1e-3: "W", 1: "kW", 1e3: "MW", 1e6: "GW"},
    "kWh": {1e-3: "Wh", 1: "kWh", 1e3: "MWh", 1e6: "GWh"},
    "USD": {1: "$ US$ USD"},
    "EUR": {1: "€ EUR"},
    "GBP": {1: "£ GBP"},
    "INR": {1: "₹ INR Rs Rs."},
    "JPY": {1: "¥ JPY 円"},
    "RUB": {1: "₽ RUB руб руб."},
    "TRY": {1: "₺ TRY TL"},
    "PLN": {1: "zł PLN"},
}  # fmt: skip
"""By the unit to which others are converted, what they are in it."""
_FACTORS = {
    unit: {name: factor for factor, names in family.items() for name in names.split()}
    for unit, family in _FAMILIES.items()
}


def measured_in(names: Collection[str]) -> str | None:
    """The unit in which all of these can be said, if there is one."""
    found = (unit for unit, factors in _FACTORS.items() if {*names} <= factors.keys())
    return next(found, None)


def are_one(names: Collection[str]) -> bool:
    """Whether units are the same by other names."""
    unit = measured_in(names)
    return unit is not None and len({_FACTORS[unit][name] for name in names}) == 1


def is_measure(value: object) -> bool:
    """Whether a value that was read from JSON is a unit to which others are converted."""
    return value in _FACTORS


def in_unit(unit: str, names: pa.Array) -> NDArray[np.float64]:
    """What each of these units is in another; NaN for those that cannot be said in it."""
    factors, different = _FACTORS[unit], names.unique()
    each = np.array([factors.get(name, np.nan) for name in different.to_pylist()], np.float64)
    found: NDArray[np.float64] = each[numpy_numbers(pc.index_in(names, value_set=different))]
    return found
