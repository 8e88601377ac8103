from labeldp.accounting import gaussian as gaussian, invert as invert, radial as radial
from labeldp.accounting.accountants import ACCOUNTANTS as ACCOUNTANTS, Accountant as Accountant
from labeldp.accounting.bounds import Answer as Answer, Bounds as Bounds
from labeldp.accounting.compose import (
    Composed as Composed,
    compose as compose,
    gaussian_mu as gaussian_mu,
)
from labeldp.accounting.curve import (
    Curve as Curve,
    Nothing as Nothing,
    Steps as Steps,
    best_true_positive_rate as best_true_positive_rate,
)
from labeldp.accounting.draw import (
    BagDraw as BagDraw,
    OverDraw as OverDraw,
    membership as membership,
)
from labeldp.accounting.family import (
    SketchFamily as SketchFamily,
    residual_cosine as residual_cosine,
)
from labeldp.accounting.floor import (
    FloorMode as FloorMode,
    Measurement as Measurement,
    added_variance as added_variance,
    default_measurement as default_measurement,
    price as price,
)
from labeldp.accounting.gaussian import Gaussian as Gaussian, most_mu as most_mu
from labeldp.accounting.laplace import Laplace as Laplace, Pure as Pure
from labeldp.accounting.limits import (
    LEAST_DELTA as LEAST_DELTA,
    MOST_EPSILON as MOST_EPSILON,
    MOST_LOSS as MOST_LOSS,
    MOST_PUBLISHED_BAGS as MOST_PUBLISHED_BAGS,
    MOST_TRIED_BAG_SIZE as MOST_TRIED_BAG_SIZE,
)
from labeldp.accounting.mixture import RandomWeights as RandomWeights, realised_mu as realised_mu
from labeldp.accounting.paper import Theorem1 as Theorem1
from labeldp.accounting.paper_bags import Theorem2 as Theorem2, Theorem3 as Theorem3
from labeldp.accounting.sketch import (
    Bags as Bags,
    Facts as Facts,
    SizedBag as SizedBag,
    Sketch as Sketch,
    spans_labels as spans_labels,
)
