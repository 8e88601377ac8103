from labeldp.learners.afterwards import estimated as estimated
from labeldp.learners.bags import WeightedBags as WeightedBags
from labeldp.learners.estimators import (
    BagRegressor as BagRegressor,
    LinearRegressor as LinearRegressor,
)
from labeldp.learners.protocol import Coefficient as Coefficient, Learner as Learner, Model as Model
from labeldp.learners.quality import Quality as Quality
from labeldp.learners.registry import (
    LEARNERS as LEARNERS,
    find_learner as find_learner,
    learners as learners,
    load_model as load_model,
)
from labeldp.learners.summary import Summary as Summary
