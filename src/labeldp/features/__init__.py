"""Features: numeric and categorical columns become design columns on public grids.

    fit_features(source) → FeatureMap      two or three streamed passes over features; no label
    map.encode(batch) → Encoded            exact integer codes, for sums
    map.design(rows) → matrix              float64 values, for prediction

The fit uses only exact sums, order statistics and counts, so it gives the same bytes for any batch
size, file layout or thread count. Modules: `levels` (values of categories as text and as
codes), `grid` (where a number enters) and `logarithm`, `columns` (one encoded column), `compounds`
(categories that share a code), `basis` and `derive` (functions of columns that join them, made of
`terms` and `waves`), `encoder` (batches to encoded or packed rows), `feature_map`, `fold` (what a
pass over the rows is), `tally` and `tails` (exact aggregates), `naming` and `judging` (numbers,
categories or ids), `merging` (rare levels), `winsor`, `wish` and `knots` (which basis), `notes`
(what is said of columns), `fit`, `raw` (the columns themselves, to publish). Other rooms
import from this page alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp.common import late_names

if TYPE_CHECKING:
    from labeldp.features.columns import CategoricalColumn, NumericColumn
    from labeldp.features.encoder import Encoded, Encoder, Packed, Rows
    from labeldp.features.feature_map import FeatureMap
    from labeldp.features.fit import fit_features
    from labeldp.features.fold import (
        ChosenRows,
        Fold,
        Labels,
        Needs,
        Pair,
        RowNumber,
        Tally,
        add_up,
        merge_into,
        pairs_of,
        results_of,
        shares_of,
        together,
    )
    from labeldp.features.formula import Formula, formula_label, named_label
    from labeldp.features.grid import check_size
    from labeldp.features.judging import FEWEST, UNIQUE, Verdict, judge
    from labeldp.features.levels import same_dictionary
    from labeldp.features.merging import merge_levels
    from labeldp.features.naming import (
        cyclic,
        named_like_a_code,
        named_like_an_id,
        names_a_person,
        surely_id,
    )
    from labeldp.features.notes import Said, foreign_notes
    from labeldp.features.raw import raw_columns, raw_schema
    from labeldp.features.tally import FEW, LevelsAndRanges
    from labeldp.features.unseen import Tamer, Unknown
    from labeldp.features.wish import Wish

__all__ = [
    "FEW",
    "FEWEST",
    "UNIQUE",
    "CategoricalColumn",
    "ChosenRows",
    "Encoded",
    "Encoder",
    "FeatureMap",
    "Fold",
    "Formula",
    "Labels",
    "LevelsAndRanges",
    "Needs",
    "NumericColumn",
    "Packed",
    "Pair",
    "RowNumber",
    "Rows",
    "Said",
    "Tally",
    "Tamer",
    "Unknown",
    "Verdict",
    "Wish",
    "add_up",
    "check_size",
    "cyclic",
    "fit_features",
    "foreign_notes",
    "formula_label",
    "judge",
    "merge_into",
    "merge_levels",
    "named_label",
    "named_like_a_code",
    "named_like_an_id",
    "names_a_person",
    "pairs_of",
    "raw_columns",
    "raw_schema",
    "results_of",
    "same_dictionary",
    "shares_of",
    "surely_id",
    "together",
]

late_names(
    __name__,
    columns="CategoricalColumn NumericColumn",
    encoder="Encoded Encoder Packed Rows",
    feature_map="FeatureMap",
    fit="fit_features",
    fold=(
        "ChosenRows Fold Labels Needs Pair RowNumber Tally add_up merge_into pairs_of "
        "results_of shares_of together"
    ),
    formula="Formula formula_label named_label",
    grid="check_size",
    judging="FEWEST UNIQUE Verdict judge",
    levels="same_dictionary",
    merging="merge_levels",
    naming="cyclic named_like_a_code named_like_an_id names_a_person surely_id",
    notes="Said foreign_notes",
    raw="raw_columns raw_schema",
    tally="FEW LevelsAndRanges",
    unseen="Tamer Unknown",
    wish="Wish",
)
