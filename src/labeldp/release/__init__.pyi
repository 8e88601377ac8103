from labeldp.release.about import About as About, read_about as read_about
from labeldp.release.certificate import Certificate as Certificate, seal as seal
from labeldp.release.claim import (
    GAUSSIANS as GAUSSIANS,
    AddedError as AddedError,
    Claim as Claim,
    FloorOutcome as FloorOutcome,
    Person as Person,
    certify as certify,
    claimed_fields as claimed_fields,
    drawn_fields as drawn_fields,
    read_head as read_head,
)
from labeldp.release.croissant import (
    CROISSANT as CROISSANT,
    JSON as JSON,
    PARQUET as PARQUET,
    File as File,
    croissant_of as croissant_of,
    described as described,
    files_of as files_of,
    title as title,
)
from labeldp.release.digest import Digest as Digest, table_digest as table_digest
from labeldp.release.drawing import (
    AGGREGATES as AGGREGATES,
    CERTIFICATE as CERTIFICATE,
    FEATURES as FEATURES,
    Drawing as Drawing,
    aggregate_batch as aggregate_batch,
    aggregate_schema as aggregate_schema,
    certificate_text as certificate_text,
    features_text as features_text,
    file_name as file_name,
    label_column as label_column,
)
from labeldp.release.files import (
    ROW as ROW,
    WANTS_TABLE as WANTS_TABLE,
    WARNING as WARNING,
    Release as Release,
    design_layout as design_layout,
)
from labeldp.release.meaning import (
    BagLabels as BagLabels,
    Meaning as Meaning,
    RowLabels as RowLabels,
    SketchedLabels as SketchedLabels,
    SumLabels as SumLabels,
)
from labeldp.release.parquet import METADATA_KEY as METADATA_KEY, check_form as check_form
from labeldp.release.rows import (
    feature_rows as feature_rows,
    labelled_rows as labelled_rows,
    public_rows as public_rows,
    row_schema as row_schema,
    table_rows as table_rows,
)
from labeldp.release.statement import (
    SIGNATURES as SIGNATURES,
    Envelope as Envelope,
    Signature as Signature,
    signature_problems as signature_problems,
    statement as statement,
)
from labeldp.release.stored import StoredTable as StoredTable, check_plain as check_plain
