"""Exact sums and what follows from them.

    gram.py        FeatureGram   public   XᵀX in integers, by the tally GramSum
    labels.py      LabelGrid     public   labels as integers on a power-of-two grid
                   LabelMoments  private  Xᵀy and yᵀy in integers, by the tally MomentSum
    factor.py      Factor        public   independent columns, a verified Cholesky factor
    leverage.py    Leverage      public   the largest leverage, by the tally LeverageScan
    weights.py     Weights       public   the matrix C of shaped-flag (theory §9)
    weight_scan.py   Sighting    public   max ‖C x_i‖ of all rows, by the tally WeightScan;
                                          short_weights.py where rows are very wide
    persons.py     Persons       public   Σ‖C x_i‖ and rows of every person, by the tally PersonScan
    shape.py       Shape         public   the best C, from a few passes: shape_routes.py,
                                          shape_dual.py; ridge.py for fits that shrink
    residual.py    Residual      private  β̂ and σ² in rigorous enclosures
    stacked.py       Stack       public   factors and leverages of many bags at once
    stacked_fits.py  Fits        private  β̂ and σ of many bags at once

Sums are integers, so they are the same bytes for any batch size, file layout or thread
count, and merging is addition. What depends on labels has types of its own whose `repr`
shows nothing. Other rooms import from this page alone.
"""
