"""`FeatureMap`: from raw rows to integer codes and design columns.

`raw_columns` gives the raw columns that a map reads, numbers as float64 and categories as text, the
same whatever types a table arrives in, so that they encode to the same integers. A missing number
is NaN, a missing category null; dates count days since 1970.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from labeldp.arrow_util import arrow_numbers
from labeldp.data.columns import NULL_WORDS, column_floats
from labeldp.data.source import Source, scan
from labeldp.errors import DataError, InputError
from labeldp.features.basis import Basis, Term, basis_from_json, basis_to_json
from labeldp.features.categories import CategoricalColumn, codes_of, names_of
from labeldp.features.columns import DesignColumn, NumericColumn
from labeldp.features.encoder import Encoded, Encoder, JointCategoryCodes, UnseenValues
from labeldp.io_util import read_json, schema_errors

INTERCEPT = "intercept"
LONGEST_NOTE = 1000
_FORMAT = "labeldp-features/1"


@dataclass(frozen=True)
class FeatureMap:
    """The fitted encoding of public features; plain values, JSON both ways.

    Design columns stand in this order: the intercept, each numeric column followed by its
    indicator, what the basis derives from them, then one block per categorical column. `kept`
    names by position those that remain after exact rank pruning; None keeps all. Positions
    (`number_columns`, `category_blocks`, `scales`, `width`) count all design columns; `names` and
    `design` give the kept ones.
    """

    rows: int
    intercept: bool
    numeric: tuple[NumericColumn, ...]
    categorical: tuple[CategoricalColumn, ...]
    notes: tuple[str, ...] = ()
    kept: tuple[int, ...] | None = None
    column_formats: dict[str, dict[str, Any]] = field(default_factory=dict, hash=False)
    """How the text of columns that could be read in several ways was read (key `spelt` in JSON):
    further rows are read likewise."""
    basis: Basis = ()

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the raw columns that rows must have."""
        return (*(c.name for c in self.numeric), *(c.name for c in self.categorical))

    @cached_property
    def by_name(self) -> dict[str, NumericColumn | CategoricalColumn]:
        """The fitted columns."""
        columns: list[NumericColumn | CategoricalColumn] = [*self.numeric, *self.categorical]
        return {column.name: column for column in columns}

    @cached_property
    def derived(self) -> tuple[tuple[Term, tuple[DesignColumn, ...]], ...]:
        """The terms of the basis, each with its design columns."""
        return tuple((term, tuple(term.design_columns(self.by_name))) for term in self.basis)

    @cached_property
    def design_columns(self) -> tuple[DesignColumn, ...]:
        """All design columns, kept or not."""
        columns = [DesignColumn(INTERCEPT, frozenset())] if self.intercept else []
        columns += [each for column in self.numeric for each in column.design_columns]
        columns += [each for _, derived in self.derived for each in derived]
        return (*columns, *(each for column in self.categorical for each in column.design_columns))

    @property
    def width(self) -> int:
        """Number of all design columns, kept or not."""
        return len(self.design_columns)

    @cached_property
    def all_names(self) -> tuple[str, ...]:
        """Names of all design columns, all different; repetitions are numbered.

        "a" with level "b=c" and "a=b" with level "c" share a name.
        """
        names = dict[str, None]()
        for column in self.design_columns:
            name, number = column.name, 1
            while name in names:
                number += 1
                name = f"{column.name} #{number}"
            names[name] = None
        return tuple(names)

    @cached_property
    def kept_columns(self) -> tuple[int, ...]:
        """Positions of the kept design columns: all of them if none was left out."""
        return tuple(range(self.width)) if self.kept is None else self.kept

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the kept design columns."""
        return tuple(self.all_names[index] for index in self.kept_columns)

    @property
    def constant(self) -> int | None:
        """Place of the intercept among the kept columns; None where other columns span it."""
        return 0 if self.intercept and self.kept_columns[:1] == (0,) else None

    @property
    def degrees(self) -> tuple[int, ...]:
        """Of every kept column: 0 for a raw one, 1 for a spline, 2 for an interaction or a wave."""
        return tuple(self.design_columns[index].degree for index in self.kept_columns)

    @cached_property
    def kept_places(self) -> NDArray[np.intp]:
        """The place of every design column among the kept ones; −1 if it is left out."""
        places = np.full(self.width, -1)
        places[list(self.kept_columns)] = np.arange(len(self.kept_columns))
        places.flags.writeable = False
        return places

    @cached_property
    def scales(self) -> NDArray[np.float64]:
        """Design value = integer code × scale; 1.0 for intercept, indicators and one-hot."""
        scales = np.array([column.scale for column in self.design_columns])
        scales.flags.writeable = False
        return scales

    @property
    def kept_scales(self) -> NDArray[np.float64]:
        """The scales of the kept design columns, in the order of `kept_columns`."""
        return self.scales[list(self.kept_columns)]

    @cached_property
    def reach(self) -> NDArray[np.float64]:
        """No entry of `Encoded.numbers` of a fitted row is larger in absolute value."""
        return np.array([self.design_columns[place].reach for place in self.number_columns])

    @property
    def number_columns(self) -> range:
        """Design positions of the columns of `Encoded.numbers`."""
        return range(int(self.intercept), self.width - sum(self.category_sizes))

    @property
    def category_sizes(self) -> tuple[int, ...]:
        """Number of design columns of each categorical block."""
        return tuple(column.size for column in self.categorical)

    @property
    def category_blocks(self) -> tuple[slice, ...]:
        """Design positions of each categorical block."""
        ends = np.cumsum([self.number_columns.stop, *self.category_sizes]).tolist()
        return tuple(slice(start, stop) for start, stop in pairwise(ends))

    @property
    def category_offsets(self) -> tuple[int, ...]:
        """Design position of the first column of each categorical block."""
        return tuple(block.start for block in self.category_blocks)

    @cached_property
    def joint_codes(self) -> JointCategoryCodes:
        """Which categories share a code when rows are encoded."""
        return JointCategoryCodes.of(self.category_sizes)

    def keep(self, indices: Sequence[int]) -> FeatureMap:
        """Return the map whose design has only these design columns, in increasing order."""
        chosen = sorted({int(index) for index in indices})
        if not chosen or chosen[0] < 0 or chosen[-1] >= self.width:
            raise InputError(f"keep needs design columns among 0 to {self.width - 1}")
        return replace(self, kept=tuple(chosen))

    def select(self, columns: Sequence[str]) -> tuple[FeatureMap, NDArray[np.bool_]]:
        """Return the map of these raw columns, and which of our kept columns it keeps.

        The intercept stays, and columns stand in our order.
        """
        unknown = [name for name in columns if name not in self.columns]
        if unknown:
            shown = ", ".join(map(repr, unknown[:5]))
            known = ", ".join(self.columns[:20])
            raise InputError(f"`columns` names {shown}, which the release lacks; it has {known}")
        small = replace(
            self,
            numeric=tuple(column for column in self.numeric if column.name in columns),
            categorical=tuple(column for column in self.categorical if column.name in columns),
            kept=None,
            basis=tuple(term for term, made in self.derived if made[0].owners.issubset(columns)),
        )
        chosen = np.array([column.owners.issubset(columns) for column in self.design_columns])
        mask = chosen[list(self.kept_columns)]
        places = np.cumsum(chosen) - 1
        return small.keep(places[list(self.kept_columns)][mask].tolist()), mask

    @property
    def packed_form(self) -> object:
        """All that packed rows depend on: a basis is derived after unpacking."""
        return self.numeric, self.categorical

    def encoder(self) -> Encoder:
        """Return an encoder for one thread."""
        return Encoder(self)

    def encode(self, batch: pa.RecordBatch, unseen: UnseenValues | None = None) -> Encoded:
        """Return the rows of a batch as exact integers; extra columns are ignored."""
        return Encoder(self, unseen)(batch)

    def base_level(self, place: int) -> int:
        """Return the code of a category's level that has no column of its own, or else the first.

        It is mostly the commonest: that is the one left out where columns depend on each other.
        """
        levels, block = self.categorical[place].levels, self.category_blocks[place]
        return int(np.argmax(self.kept_places[block][: len(levels)] < 0))

    @property
    def reading(self) -> dict[str, Any]:
        """Keywords of `scan` that read further rows as the fitted ones were read."""
        levels = [level for column in self.categorical for level in column.levels]
        forms = self.column_formats.values()
        na = tuple(dict.fromkeys(word for form in forms for word in form.get("na", ())))
        return {
            "features": self.columns,
            "categorical": tuple(column.name for column in self.categorical),
            "numeric": tuple(column.name for column in self.numeric),
            "column_formats": self.column_formats,
            # Texts that mean missing: none where a level is spelt so.
            "na": () if any(level in NULL_WORDS for level in levels) else na or None,
        }

    def batches(self, rows: Any) -> Iterator[pa.RecordBatch]:
        """Return the raw columns of a source, a path, a batch or a frame, some rows at a time."""
        source = rows if isinstance(rows, Source) else scan(rows, **self.reading)
        return source.feature_batches(self.columns)

    def design(self, rows: Any, unseen: UnseenValues | None = None) -> NDArray[np.float64]:
        """Return the dense kept design matrix of a batch, a table or a frame."""
        parts = [self.integers(self.encode(batch, unseen)) for batch in self.batches(rows)]
        codes = np.concatenate(parts) if parts else np.zeros((0, len(self.kept_columns)))
        return codes * self.kept_scales

    def transformer(self) -> Any:
        """Return a scikit-learn transformer of raw rows to the design, for a baseline's pipeline.

        It leaves out the constant, which models of scikit-learn add. Unknown levels are the base.
        """
        from sklearn.preprocessing import FunctionTransformer  # late: slow to import

        return FunctionTransformer(self._varying_design, feature_names_out=self._varying_names)

    def _varying_design(self, rows: Any) -> NDArray[np.float64]:
        design = self.design(rows, UnseenValues())
        return design if self.constant is None else design[:, 1:]

    def _varying_names(self, *_: Any) -> NDArray[Any]:
        return np.array(self.names[self.constant is not None :], dtype=object)

    def integers(self, encoded: Encoded) -> NDArray[np.float64]:
        """Return the kept design columns of encoded rows, dense, before their scales."""
        place = self.kept_places
        dense = np.zeros((encoded.rows, len(self.kept_columns)))
        if self.constant is not None:
            dense[:, self.constant] = 1.0
        for index, position in enumerate(self.number_columns):
            if place[position] >= 0:
                dense[:, place[position]] = encoded.numbers[:, index]
        for offset, codes in zip(self.category_offsets, encoded.categories, strict=True):
            target = place[offset + codes]
            hit = np.flatnonzero(target >= 0)
            dense[hit, target[hit]] = 1.0
        return dense

    def to_original_units(self) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        """Return names and a matrix that turns kept design coefficients into raw units.

        A numeric coefficient becomes the slope per unit of x, and what centring moved goes
        back into the intercept. An indicator is the effect of being missing relative to the
        mean that missing values count as. What the basis derives is named for what it is in those
        units; numbers in products are less their means. Exact for x on the grid, else within half a
        step.
        """
        columns = [self.design_columns[position] for position in self.kept_columns]
        slopes = np.diag([column.slope for column in columns])
        offsets = np.array([column.offset for column in columns])
        if self.intercept and self.constant is None:  # no design column, but one in raw units
            return (INTERCEPT, *self.names), np.vstack([offsets, slopes])
        if self.intercept:
            slopes[0] += offsets
        return self.names, slopes

    def to_json(self) -> dict[str, Any]:
        """Return the map as plain JSON values; `from_json` gives an equal map back."""
        return {
            "format": _FORMAT,
            "rows": self.rows,
            "intercept": self.intercept,
            "numeric": [column.to_json() for column in self.numeric],
            "categorical": [column.to_json() for column in self.categorical],
            "notes": list(self.notes),
            "kept": None if self.kept is None else list(self.kept),
            **({"spelt": self.column_formats} if self.column_formats else {}),
            **({"basis": basis} if (basis := basis_to_json(self.basis)) else {}),
        }

    @classmethod
    def from_json(cls, document: Any) -> FeatureMap:
        """Read what `to_json` wrote; a DataError if it is something else."""
        if not isinstance(document, dict) or document.get("format") != _FORMAT:
            raise DataError(f"features: not a {_FORMAT} document; restore the original file")
        schema = read_json(Path(__file__).with_name("features.schema.json"))
        error = next(schema_errors(schema, document), None)
        if error is not None:
            place = [f"a malformed {name!r}" for name in list(error.absolute_path)[:1]]
            what = place[0] if place else "missing or unknown fields"
            raise DataError(f"features has {what}; restore the original file")
        kept = document["kept"]
        if kept is not None and kept != sorted(set(kept)):
            raise DataError("features: kept must be increasing; restore the original file")
        features = cls(
            document["rows"],
            document["intercept"],
            tuple(map(NumericColumn.from_json, document["numeric"])),
            tuple(map(CategoricalColumn.from_json, document["categorical"])),
            tuple(document["notes"]),
            column_formats=document.get("spelt", {}),
            basis=basis_from_json(document.get("basis", {})),
        )
        try:
            features.derived  # noqa: B018
        except (KeyError, IndexError):
            raise DataError(
                "features: the basis is of other columns; restore the original file"
            ) from None
        return features if kept is None else features.keep(kept)


def raw_schema(features: FeatureMap) -> pa.Schema:
    """Return the schema of the columns that a feature map reads."""
    numbers = [pa.field(column.name, pa.float64(), nullable=False) for column in features.numeric]
    return pa.schema([*numbers, *(pa.field(c.name, pa.string()) for c in features.categorical)])


def raw_columns(features: FeatureMap, batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return those columns of a batch; one NaN and one zero, whatever their bits were."""
    columns = []
    for numeric in features.numeric:
        values = column_floats(batch.column(numeric.name), numeric.name) + 0.0
        values[np.isnan(values)] = np.nan
        columns.append(arrow_numbers(values))
    for categorical in features.categorical:
        dictionary, places = codes_of(batch.column(categorical.name))
        names = pa.array([*names_of(dictionary), None], pa.string())
        columns.append(names.take(arrow_numbers(places)))
    return pa.RecordBatch.from_arrays(columns, schema=raw_schema(features))
