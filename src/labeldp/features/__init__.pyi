from labeldp.features.columns import (
    CategoricalColumn as CategoricalColumn,
    NumericColumn as NumericColumn,
)
from labeldp.features.encoder import (
    Encoded as Encoded,
    Encoder as Encoder,
    Packed as Packed,
    Rows as Rows,
)
from labeldp.features.feature_map import FeatureMap as FeatureMap
from labeldp.features.fit import fit_features as fit_features
from labeldp.features.fold import (
    ChosenRows as ChosenRows,
    Fold as Fold,
    Labels as Labels,
    Needs as Needs,
    Pair as Pair,
    RowNumber as RowNumber,
    Tally as Tally,
    add_up as add_up,
    merge_into as merge_into,
    pairs_of as pairs_of,
    results_of as results_of,
    shares_of as shares_of,
    together as together,
)
from labeldp.features.formula import (
    Formula as Formula,
    formula_label as formula_label,
    named_label as named_label,
)
from labeldp.features.grid import check_size as check_size
from labeldp.features.judging import (
    FEWEST as FEWEST,
    UNIQUE as UNIQUE,
    Verdict as Verdict,
    judge as judge,
)
from labeldp.features.levels import same_dictionary as same_dictionary
from labeldp.features.merging import merge_levels as merge_levels
from labeldp.features.naming import (
    cyclic as cyclic,
    named_like_a_code as named_like_a_code,
    named_like_an_id as named_like_an_id,
    names_a_person as names_a_person,
    surely_id as surely_id,
)
from labeldp.features.notes import Said as Said, foreign_notes as foreign_notes
from labeldp.features.raw import raw_columns as raw_columns, raw_schema as raw_schema
from labeldp.features.tally import FEW as FEW, LevelsAndRanges as LevelsAndRanges
from labeldp.features.unseen import Tamer as Tamer, Unknown as Unknown
from labeldp.features.wish import Wish as Wish
