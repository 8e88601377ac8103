"""What a release costs: guarantees as privacy profiles, and inverse questions about them.

privacy_profile  Bounds, PrivacyProfile: certified δ(ε), groups, the draw of bags, where to search
calibrate        ε at δ, most aggregates, least floor, noise or bag size
contour          δ(ε) of any product of sketches and Gaussians by one contour integral
neighbors        the supremum of δ(ε) over every neighbour the public bounds allow
sketch           aggregates with secret weights: wtd-FLAg, sampled-wtd-FLAg; residual floors
gaussian         the Gaussian mechanism
radial           bounded losses: Laplace noise, radial noise
weighted_bags    sampled-noisy-wtd-LAg, before any draw and given its weights
compose          several releases of one table together
"""
