"""Exact sums and rigorous bounds computed from them.

    gram.py            FeatureGram, GramAccumulator          public   XᵀX in integers
    cholesky.py        VerifiedCholesky                      public   independent columns, a factor
    label_sums.py      LabelGrid, LabelMoments               private  Xᵀy and yᵀy in integers
                       ExactLeastSquares                     private  β̂ and σ² in enclosures
    quadratic_form.py  QuadraticForm                         public   xᵀMx with a rounding bound
                       LeverageScan                          public   the largest leverage
    row_norms.py       Weights, RowNormScan                  public   max ‖C x_i‖ (shaped-flag)
    person_norms.py    PersonScan                            public   max Σ‖C x_i‖ of a person
    stacked.py         StackedBags; BagFits                  both     many small bags at once

Sums are integers, so they are the same bytes for any batch size, file layout or thread count, and
merging is addition. Everything else is floating point with error bounds rounded outwards. What
depends on labels has types of its own that print nothing and refuse to be pickled.
"""
