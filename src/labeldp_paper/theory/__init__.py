"""The paper's lemmas and utility statements as numbers: what they promise, and when nothing.

    tails     concentration bounds: matrix Chernoff, Hoeffding, Hanson–Wright
    deviation what two Gaussians that differ little give away
    spanned   Appendix D: labels in the column space of the features are not private
    privacy   the privacy parts of the theorems: the least ε, δ and bag size, the most bags
    utility   the utility parts of Theorems 1, 2 and 3 with explicit constants
    neural    output and Lipschitz bounds of networks with bounded layers
    earlier   how many bags Theorem 1 and an earlier bound allow on the same release

Nothing here is needed for a release: exact laws (`labeldp.accounting`) and forecasts
(`labeldp.mechanisms`) are. These are for comparison. Every probability but δ is kept as a
logarithm; a bound that is not below 1 is called vacuous.
"""
