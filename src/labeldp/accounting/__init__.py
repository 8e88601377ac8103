"""What a release costs: a guarantee is a curve, and all inverse questions are asked in one file.

bounds     Bounds(lower, estimate, upper), and Answer: a number or why there is none
limits     how far the accountants look
curve      Curve: δ(ε), groups, and where to look for its limits
invert     every inverse question: ε at δ, most bags, least floor, noise, bag size
contour    δ(ε) of any product of sketches and Gaussians by one contour integral
family     the sup of δ(ε) over every neighbour the public facts allow, certified
sketch     aggregates with secret weights: wtd-FLAg, and sampled-wtd-FLAg given its bags
gaussian   the Gaussian mechanism
laplace    losses that are bounded: pure ε, and Laplace noise on one number
radial     noise of the same kind in several dimensions
random_mu  the Gaussian mechanism's mean δ(ε) when its μ is random
mixture    sampled-noisy-wtd-LAg before any draw, and the μ of weights that were drawn
draw       the same guarantees over the draw of the bags
compose    several releases of one table together
floor      where the residual floor comes from
paper      the paper's Theorem 1 as printed
paper_bags its Theorems 2 and 3
decimals   exact arithmetic for the theorems
accountants  paper, exact-worst-case and exact for wtd-FLAg

Other rooms import from this page alone.
"""
