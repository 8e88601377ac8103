"""Networks f_l = W_l[o(f_{l−1})|1], f_0 = x, with ‖W_l‖_F ≤ K in every layer (theory §2).

The activation o is 1-Lipschitz with o(0) = 0 (ReLU, tanh; not the logistic function): the
lemmas use ‖o(x)‖ ≤ ‖x‖. With S_l² = 1 + K² + … + K^{2l} and ‖x‖ ≤ K,

    ‖f_l‖² ≤ K²(‖f_{l−1}‖² + 1)             gives ‖f_l‖ ≤ K·S_l,
    ‖f_l − f'_l‖ ≤ K‖f_{l−1} − f'_{l−1}‖ + ‖W_l − W'_l‖·S_l   gives Σ_l K^{l0−l}S_l‖W_l − W'_l‖.

As K^{l0−l}S_l ≤ S_{l0} for every K, that is at most √l0·S_{l0} times the change of all weights.
(The paper has this for K > 1; its second case, Σ‖W_l − W'_l‖ for K ≤ 1, drops S_l > 1, but the
maximum it takes of both covers the gap.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from labeldp.errors import at_least, positive, to_range


@dataclass(frozen=True)
class NeuralClass:
    """F_NN(K, l0): `layers` layers, weights of each in a Frobenius ball of `radius`.

    feature_bound: ‖x‖ is at most this; K is raised to it where it is larger.
    """

    radius: float
    layers: int
    feature_bound: float = 0.0

    def __post_init__(self) -> None:
        positive(radius=self.radius)
        at_least(1, layers=self.layers)
        at_least(0.0, feature_bound=self.feature_bound)

    @property
    def bound(self) -> float:
        """K = max(radius, feature_bound)."""
        return max(self.radius, self.feature_bound)

    @property
    def weight_norm(self) -> float:
        """√l0·K, the largest norm of all weights together."""
        return math.sqrt(self.layers) * self.bound

    @property
    def output_bound(self) -> float:
        """K·√((K^{2l0+2} − 1)/(K² − 1)), the largest |f|; inf beyond floats."""
        return self.bound * _geometric_root(self.bound, self.layers)

    @property
    def lipschitz(self) -> float:
        """max{√(l0(K^{2l0+2} − 1)/(K² − 1)), l0}, in the weights."""
        root = _geometric_root(self.bound, self.layers)
        return max(math.sqrt(self.layers) * root, float(self.layers))

    def loss_bound(self, label_range: tuple[float, float]) -> float:
        """(B_Y + the largest |f|)², the largest squared loss; labels centred on the mid-range."""
        to_range("label_range", label_range)
        total = 0.5 * (label_range[1] - label_range[0]) + self.output_bound
        return total * total


def _geometric_root(base: float, power: int) -> float:
    """√(1 + K² + … + K^{2l}), the largest power taken out; inf beyond floats."""
    small = min(base, 1.0 / base) ** 2
    series = math.fsum(small**i for i in range(min(power, 100_000) + 1))
    if base <= 1.0:
        return math.sqrt(series)
    log = power * math.log(base)
    return math.exp(log) * math.sqrt(series) if log < 700.0 else math.inf
