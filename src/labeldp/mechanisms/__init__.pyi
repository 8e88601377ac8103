from labeldp.mechanisms.comparison import best_of as best_of, compare as compare
from labeldp.mechanisms.forecasting import Forecast as Forecast, forecast as forecast
from labeldp.mechanisms.options import (
    BagsQuestion as BagsQuestion,
    CountQuestion as CountQuestion,
    DrawOptions as DrawOptions,
    Encoding as Encoding,
    FeaturesQuestion as FeaturesQuestion,
    FloorOptions as FloorOptions,
    GuessOptions as GuessOptions,
    Options as Options,
    Question as Question,
    Request as Request,
    ResidualQuestion as ResidualQuestion,
    beside_formula as beside_formula,
    check_budget as check_budget,
    check_options as check_options,
    column_names as column_names,
    given as given,
    make_options as make_options,
    names as names,
    option as option,
    refuse_foreign as refuse_foreign,
    required as required,
)
from labeldp.mechanisms.planning import (
    TABLE as TABLE,
    Point as Point,
    forecast_curve as forecast_curve,
    plan as plan,
)
from labeldp.mechanisms.plans import Plan as Plan
from labeldp.mechanisms.protocol import (
    ANY_MODEL as ANY_MODEL,
    LINEAR as LINEAR,
    REMARKS as REMARKS,
    USES as USES,
    Account as Account,
    Demonstration as Demonstration,
    Description as Description,
    Inspection as Inspection,
    Mechanism as Mechanism,
    Panel as Panel,
    Trial as Trial,
    Use as Use,
    describe_draw as describe_draw,
    describe_floor as describe_floor,
    describe_person as describe_person,
    later as later,
    number as number,
    of_folder as of_folder,
)
from labeldp.mechanisms.registry import (
    AUTO as AUTO,
    DELTA as DELTA,
    DRAW as DRAW,
    EPSILON as EPSILON,
    FLOOR as FLOOR,
    AccountantName as AccountantName,
    MechanismName as MechanismName,
    certificate_schema as certificate_schema,
    check_persons as check_persons,
    check_pure as check_pure,
    demonstrations as demonstrations,
    draft as draft,
    forget as forget,
    make_request as make_request,
    mechanism_named as mechanism_named,
    mechanism_names as mechanism_names,
    mechanisms as mechanisms,
    read_claim as read_claim,
    read_schema as read_schema,
    register as register,
)
from labeldp.mechanisms.structure import altered as altered, misshapen as misshapen
from labeldp.mechanisms.surveying import Survey as Survey, survey as survey
from labeldp.mechanisms.trial import Known as Known, Part as Part, Reals as Reals, Shown as Shown
from labeldp.mechanisms.worth import judged as judged
