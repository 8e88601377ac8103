"""The mechanisms; each is one folder, of its name, and knows no other.

A folder's front page declares the mechanism (`protocol.Mechanism`); `registry` knows which
folders there are. In each: `claim` (what is promised, and what `verify` checks of it), `plan` (from
features alone), `run` (the one pass over labels), `account` (the price, without data). What they
share stands beside them: this page is quick to import, `workbench` is not. Other rooms import
from this page alone, and what is slow to import comes when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from labeldp.common import late_names
from labeldp.mechanisms.options import (
    BagsQuestion,
    CountQuestion,
    DrawOptions,
    Encoding,
    FeaturesQuestion,
    FloorOptions,
    GuessOptions,
    Options,
    Question,
    Request,
    ResidualQuestion,
    beside_formula,
    check_budget,
    check_options,
    column_names,
    given,
    make_options,
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
    Trial,
    Use,
    describe_draw,
    describe_floor,
    describe_person,
    later,
    number,
    of_folder,
)
from labeldp.mechanisms.registry import (
    AUTO,
    DELTA,
    DRAW,
    EPSILON,
    FLOOR,
    AccountantName,
    MechanismName,
    certificate_schema,
    check_persons,
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

if TYPE_CHECKING:
    from labeldp.mechanisms.comparison import best_of, compare
    from labeldp.mechanisms.forecasting import Forecast, forecast
    from labeldp.mechanisms.planning import TABLE, Point, forecast_curve, plan
    from labeldp.mechanisms.plans import Plan
    from labeldp.mechanisms.structure import altered, misshapen
    from labeldp.mechanisms.surveying import Survey, survey
    from labeldp.mechanisms.trial import Known, Part, Reals, Shown
    from labeldp.mechanisms.worth import judged

__all__ = [
    "ANY_MODEL",
    "AUTO",
    "DELTA",
    "DRAW",
    "EPSILON",
    "FLOOR",
    "LINEAR",
    "REMARKS",
    "TABLE",
    "USES",
    "Account",
    "AccountantName",
    "BagsQuestion",
    "CountQuestion",
    "Demonstration",
    "Description",
    "DrawOptions",
    "Encoding",
    "FeaturesQuestion",
    "FloorOptions",
    "Forecast",
    "GuessOptions",
    "Inspection",
    "Known",
    "Mechanism",
    "MechanismName",
    "Options",
    "Panel",
    "Part",
    "Plan",
    "Point",
    "Question",
    "Reals",
    "Request",
    "ResidualQuestion",
    "Shown",
    "Survey",
    "Trial",
    "Use",
    "altered",
    "beside_formula",
    "best_of",
    "certificate_schema",
    "check_budget",
    "check_options",
    "check_persons",
    "check_pure",
    "column_names",
    "compare",
    "demonstrations",
    "describe_draw",
    "describe_floor",
    "describe_person",
    "draft",
    "forecast",
    "forecast_curve",
    "forget",
    "given",
    "judged",
    "later",
    "make_options",
    "make_request",
    "mechanism_named",
    "mechanism_names",
    "mechanisms",
    "misshapen",
    "names",
    "number",
    "of_folder",
    "option",
    "plan",
    "read_claim",
    "read_schema",
    "refuse_foreign",
    "register",
    "required",
    "survey",
]

late_names(
    __name__,
    comparison="best_of compare",
    forecasting="Forecast forecast",
    plans="Plan",
    planning="TABLE Point forecast_curve plan",
    structure="altered misshapen",
    surveying="Survey survey",
    trial="Known Part Reals Shown",
    worth="judged",
)
