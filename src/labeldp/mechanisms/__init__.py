"""The mechanisms; each is one folder and knows no other.

    wtd_flag               wtd-FLAg, Algorithm 1: every aggregate weighs all rows
    shaped_flag            shaped-flag: every aggregate weighs all rows, with chosen public weights
    noisy_rows             noisy-rows: every row's label with noise of its own
    sampled_wtd_flag       sampled-wtd-FLAg, Algorithm 2: one aggregate of each of m random bags
    sampled_noisy_wtd_lag  sampled-noisy-wtd-LAg, Algorithm 3: noisy labels, public weights

A folder's front page declares the mechanism (`protocol.Mechanism`); `registry` knows where the
folders are. In each: `claim` (what is promised, and what `verify` checks of it), `plan` (from
features alone), `run` (the one pass over labels), `account` (the price, without data). What they
share stands beside them: this page is quick to import, `workbench` is not.
"""

from labeldp.mechanisms.options import (
    BagsQuestion,
    CountQuestion,
    DrawOptions,
    Encoding,
    FeaturesQuestion,
    FloorOptions,
    Options,
    Question,
    Request,
    ResidualQuestion,
    check_options,
    column_names,
    given,
    names,
    option,
    refuse_foreign,
    required,
)
from labeldp.mechanisms.protocol import (
    ANY_MODEL,
    LINEAR,
    REMARKS,
    USES,
    Account,
    Demonstration,
    Description,
    Inspection,
    Mechanism,
    Panel,
    describe_draw,
    describe_floor,
    describe_person,
    later,
    number,
)
from labeldp.mechanisms.registry import (
    AUTO,
    DRAW,
    FLOOR,
    certificate_schema,
    check_pure,
    demonstrations,
    draft,
    forget,
    make_request,
    mechanism_named,
    mechanism_names,
    mechanisms,
    read_claim,
    read_schema,
    register,
)

__all__ = [
    "ANY_MODEL",
    "AUTO",
    "DRAW",
    "FLOOR",
    "LINEAR",
    "REMARKS",
    "USES",
    "Account",
    "BagsQuestion",
    "CountQuestion",
    "Demonstration",
    "Description",
    "DrawOptions",
    "Encoding",
    "FeaturesQuestion",
    "FloorOptions",
    "Inspection",
    "Mechanism",
    "Options",
    "Panel",
    "Question",
    "Request",
    "ResidualQuestion",
    "certificate_schema",
    "check_options",
    "check_pure",
    "column_names",
    "demonstrations",
    "describe_draw",
    "describe_floor",
    "describe_person",
    "draft",
    "forget",
    "given",
    "later",
    "make_request",
    "mechanism_named",
    "mechanism_names",
    "mechanisms",
    "names",
    "number",
    "option",
    "read_claim",
    "read_schema",
    "refuse_foreign",
    "register",
    "required",
]
