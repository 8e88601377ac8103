from labeldp.statistics.factor import (
    LARGE as LARGE,
    ROUNDOFF as ROUNDOFF,
    Factor as Factor,
    factorise as factorise,
    spanned as spanned,
)
from labeldp.statistics.gram import FeatureGram as FeatureGram, GramSum as GramSum
from labeldp.statistics.labels import (
    LABEL_BITS as LABEL_BITS,
    LabelGrid as LabelGrid,
    LabelMoments as LabelMoments,
    MomentSum as MomentSum,
)
from labeldp.statistics.leverage import Leverage as Leverage, LeverageScan as LeverageScan
from labeldp.statistics.persons import (
    PersonScan as PersonScan,
    Seen as Seen,
    largest_persons as largest_persons,
)
from labeldp.statistics.residual import Residual as Residual
from labeldp.statistics.ridge import Expected as Expected
from labeldp.statistics.shape import (
    FULL_COLUMNS as FULL_COLUMNS,
    Shape as Shape,
    find_ridged as find_ridged,
    find_shape as find_shape,
)
from labeldp.statistics.stacked import (
    Stack as Stack,
    bags_at_once as bags_at_once,
    stacked_design as stacked_design,
)
from labeldp.statistics.stacked_fits import Fits as Fits, fit_stack as fit_stack
from labeldp.statistics.weight_scan import (
    Sighting as Sighting,
    WeightScan as WeightScan,
    short_length as short_length,
)
from labeldp.statistics.weights import Weights as Weights
