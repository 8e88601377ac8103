from labeldp._random import Randomness as Randomness
from labeldp.common import (
    arrow_numbers as arrow_numbers,
    column_numbers as column_numbers,
    numpy_numbers as numpy_numbers,
)
from labeldp.engines import Engine as Engine, engine_for as engine_for
from labeldp.features import (
    Encoded as Encoded,
    Encoder as Encoder,
    FeatureMap as FeatureMap,
    raw_columns as raw_columns,
)
from labeldp.mechanisms import (
    REMARKS as REMARKS,
    Encoding as Encoding,
    Panel as Panel,
    Request as Request,
    number as number,
)
from labeldp.mechanisms.workbench.bags import (
    BAGS as BAGS,
    BagRows as BagRows,
    Draw as Draw,
    Rehearsal as Rehearsal,
    check_bag_rows as check_bag_rows,
    check_members as check_members,
    check_stable_rows as check_stable_rows,
    fresh_draw as fresh_draw,
    members_table as members_table,
)
from labeldp.mechanisms.workbench.checks import (
    FAR as FAR,
    check_grid as check_grid,
    check_label_exponent as check_label_exponent,
    check_numbers as check_numbers,
    other_table as other_table,
)
from labeldp.mechanisms.workbench.floor_checks import (
    check_floor_release as check_floor_release,
    untested_floor as untested_floor,
)
from labeldp.mechanisms.workbench.floors import (
    FloorClaim as FloorClaim,
    LabelLaw as LabelLaw,
    Terms as Terms,
    claimed_floor as claimed_floor,
    floor_mode as floor_mode,
    means as means,
    measure_residual as measure_residual,
    read_floor as read_floor,
    root_bounds as root_bounds,
    settle_floor as settle_floor,
)
from labeldp.mechanisms.workbench.forecasting import (
    Forecast as Forecast,
    bag_sizes as bag_sizes,
    explained_ms as explained_ms,
    forecast as forecast,
    mean_excess as mean_excess,
    relative_excess as relative_excess,
    shrunken_ms as shrunken_ms,
    sketched_error as sketched_error,
)
from labeldp.mechanisms.workbench.laws import (
    bag_squares as bag_squares,
    check_design as check_design,
    improbable as improbable,
)
from labeldp.mechanisms.workbench.notes import Note as Note, spared as spared
from labeldp.mechanisms.workbench.plans import (
    CONTRADICTION as CONTRADICTION,
    OTHER_FEATURES as OTHER_FEATURES,
    Plan as Plan,
)
from labeldp.mechanisms.workbench.surveying import (
    HEADROOM as HEADROOM,
    Survey as Survey,
    feature_bound as feature_bound,
    inflation_for as inflation_for,
    most_rows as most_rows,
    person_notes as person_notes,
    survey as survey,
    surveyed as surveyed,
)
from labeldp.release import (
    AGGREGATES as AGGREGATES,
    FEATURES as FEATURES,
    ROW as ROW,
    WARNING as WARNING,
    AddedError as AddedError,
    BagLabels as BagLabels,
    Claim as Claim,
    Digest as Digest,
    Drawing as Drawing,
    FloorOutcome as FloorOutcome,
    Meaning as Meaning,
    Person as Person,
    Release as Release,
    RowLabels as RowLabels,
    SketchedLabels as SketchedLabels,
    SumLabels as SumLabels,
    aggregate_batch as aggregate_batch,
    aggregate_schema as aggregate_schema,
    features_text as features_text,
    file_name as file_name,
    label_column as label_column,
    labelled_rows as labelled_rows,
    read_head as read_head,
    row_schema as row_schema,
    seal as seal,
    table_digest as table_digest,
)
from labeldp.source import Source as Source, take_rows as take_rows
from labeldp.statistics import (
    FULL_COLUMNS as FULL_COLUMNS,
    LARGE as LARGE,
    ROUNDOFF as ROUNDOFF,
    Expected as Expected,
    Factor as Factor,
    FeatureGram as FeatureGram,
    Fits as Fits,
    GramSum as GramSum,
    LabelGrid as LabelGrid,
    LabelMoments as LabelMoments,
    Leverage as Leverage,
    LeverageScan as LeverageScan,
    MomentSum as MomentSum,
    PersonScan as PersonScan,
    Residual as Residual,
    Seen as Seen,
    Shape as Shape,
    Sighting as Sighting,
    Stack as Stack,
    Weights as Weights,
    WeightScan as WeightScan,
    bags_at_once as bags_at_once,
    factorise as factorise,
    find_ridged as find_ridged,
    find_shape as find_shape,
    fit_stack as fit_stack,
    largest_persons as largest_persons,
    short_length as short_length,
    stacked_design as stacked_design,
)
