"""What sampled-noisy-wtd-LAg promises: a noisy weighted sum of labels from each bag."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from labeldp.accounting import Curve, Gaussian, RandomWeights, Theorem3
from labeldp.errors import InputError
from labeldp.mechanisms.bags import Draw
from labeldp.mechanisms.forecast import relative_excess
from labeldp.release import Claim, read_head

BASIS = {
    "exact": "exact law of the Gaussian mechanism with the weights that were drawn (realised); "
    "bags whose mu was above the plan's were drawn again, without looking at labels",
    "exact-worst-case": "exact law of the Gaussian mechanism, averaged over weights and noisy rows "
    "before they are drawn (a priori)",
    "paper": "Theorem 3 of 'Label Differential Privacy via Aggregation' with the constants of its "
    "proof, mended",
}


@dataclass(frozen=True)
class NoisyLagClaim(Claim):
    """Bags of `draw`, noise N(0, noise_std²) on some rows' labels, in label units."""

    mechanism: ClassVar[str] = "sampled-noisy-wtd-lag"

    rank: int
    label_range: tuple[float, float]
    centred: bool
    draw: Draw
    noise_std: float
    noisy_fraction: float | None
    """ρ: every row is noisy by its own coin; None if a column says which are."""
    noisy_column: str | None
    mu: float | None
    """No bag that was drawn has more (over the draw: no draw has); None where the claim does not
    rest on it."""

    def __post_init__(self) -> None:
        if self.accountant != "exact" and not self.draw.random:
            raise InputError(
                "an a priori claim averages over weights drawn at random; leave --bag-seed out, or "
                "use the accountant exact"
            )
        if self.noisy_fraction is not None and not 0.0 < self.noisy_fraction <= 1.0:
            raise InputError(
                f"the noisy fraction must be above 0 and at most 1, not {self.noisy_fraction:g}"
            )

    @property
    def width(self) -> float:
        """Δ, the most one label can change."""
        return self.label_range[1] - self.label_range[0]

    @property
    def law(self) -> Curve:
        """Realised: the shifts of a group add up to at most size·μ, in one bag or in several."""
        if self.accountant == "exact":
            if self.mu is None:
                raise ValueError("a realised claim needs the mu of the weights drawn")
            return self.draw.over(Gaussian(self.mu))
        size, fraction = self.draw.bag_size, self.noisy_fraction
        if fraction is None:
            raise ValueError("an a priori claim needs the fraction of noisy rows")
        if self.accountant == "paper":
            return Theorem3(self.label_range, fraction, size, self.bags, self.noise_std)
        return self.draw.over(RandomWeights(size, self.label_range, fraction, self.noise_std))

    def utility(self) -> dict[str, Any]:
        return {
            "relative_to": "residual sum of squares per row of the fit with all labels, plus the "
            "noise variance times the fraction of noisy rows; approximate, since bags differ",
            **relative_excess(self.rank, self.bags),
        }

    def to_json(self) -> dict[str, Any]:
        return {
            **self.head(BASIS[self.accountant]),
            "form": "rows",
            "bag_size": self.draw.bag_size,
            "rows": self.draw.rows,
            "rank": self.rank,
            "label_range": list(self.label_range),
            "label_width": self.width,
            "max_leverage": None,
            "constant_in_span": self.centred,
            "floor": None,
            "inflation": None,
            "draw": {
                **self.draw.to_json(),
                "bag_rank": None,
                "min_eigenvalue": None,
                "feature_bound": None,
                "theorem2_terms": None,
            },
            "noise": {
                "std": self.noise_std,
                "fraction": self.noisy_fraction,
                "column": self.noisy_column,
                "mu": self.mu,
            },
        }


def read_claim(document: dict[str, Any]) -> NoisyLagClaim:
    """The inverse of `to_json`."""
    low, high = document["label_range"]
    noise = document["noise"]
    fraction, mu = noise["fraction"], noise["mu"]
    if (mu is None) == (document["accountant"]["name"] == "exact"):
        raise ValueError("realised accounting and mu go together")
    if (fraction is None) == (noise["column"] is None):
        raise ValueError("noisy rows follow from a fraction or from a column")
    return NoisyLagClaim(
        **read_head(document),
        rank=int(document["rank"]),
        label_range=(float(low), float(high)),
        centred=bool(document["constant_in_span"]),
        draw=Draw.from_json(document),
        noise_std=float(noise["std"]),
        noisy_fraction=None if fraction is None else float(fraction),
        noisy_column=noise["column"],
        mu=None if mu is None else float(mu),
    )
