"""The published thing: its claim, its certificate, its files."""

from labeldp.release.about import About, read_about
from labeldp.release.certificate import Certificate
from labeldp.release.claim import (
    GAUSSIANS,
    AddedError,
    Claim,
    FloorOutcome,
    Person,
    certify,
    claimed_fields,
    drawn_fields,
    read_head,
    seal,
)
from labeldp.release.croissant import CROISSANT, croissant_of
from labeldp.release.digest import Digest, table_digest
from labeldp.release.drawing import (
    AGGREGATES,
    CERTIFICATE,
    FEATURES,
    Drawing,
    aggregate_batch,
    aggregate_schema,
    certificate_text,
    features_text,
    file_name,
    label_column,
)
from labeldp.release.files import ROW, WARNING, Release, design_layout
from labeldp.release.meaning import BagLabels, Meaning, RowLabels, SketchedLabels, SumLabels
from labeldp.release.parquet import METADATA_KEY, check_form
from labeldp.release.rows import feature_rows, labelled_rows, public_rows, row_schema, table_rows
from labeldp.release.statement import (
    SIGNATURES,
    Envelope,
    Signature,
    signature_problems,
    statement,
)
from labeldp.release.stored import StoredTable, check_plain

__all__ = [
    "AGGREGATES",
    "CERTIFICATE",
    "CROISSANT",
    "FEATURES",
    "GAUSSIANS",
    "METADATA_KEY",
    "ROW",
    "SIGNATURES",
    "WARNING",
    "About",
    "AddedError",
    "BagLabels",
    "Certificate",
    "Claim",
    "Digest",
    "Drawing",
    "Envelope",
    "FloorOutcome",
    "Meaning",
    "Person",
    "Release",
    "RowLabels",
    "Signature",
    "SketchedLabels",
    "StoredTable",
    "SumLabels",
    "aggregate_batch",
    "aggregate_schema",
    "certificate_text",
    "certify",
    "check_form",
    "check_plain",
    "claimed_fields",
    "croissant_of",
    "design_layout",
    "drawn_fields",
    "feature_rows",
    "features_text",
    "file_name",
    "label_column",
    "labelled_rows",
    "public_rows",
    "read_about",
    "read_head",
    "row_schema",
    "seal",
    "signature_problems",
    "statement",
    "table_digest",
    "table_rows",
]
