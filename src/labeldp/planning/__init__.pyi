from labeldp.planning.comparison import best_of as best_of, compare as compare
from labeldp.planning.verbs import (
    TABLE as TABLE,
    Point as Point,
    forecast_curve as forecast_curve,
    plan as plan,
)
from labeldp.planning.worth import judged as judged
