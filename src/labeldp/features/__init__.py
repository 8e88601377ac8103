"""Features: numeric and categorical columns become design columns on public grids.

    fit_features(source) → FeatureMap      two or three streamed passes over features; no label
    map.encode(batch) → Encoded            exact integer codes, for sums
    map.design(rows) → matrix              float64 values, for prediction

The fit uses only exact sums, order statistics and counts, so it gives the same bytes for any batch
size, file layout or thread count. Modules: `levels` (values of categories as text and as
codes), `grid` (where a number enters) and `logarithm`, `columns` (one encoded column), `compounds`
(categories that share a code), `basis` and `derive` (functions of columns that join them, made of
`terms` and `waves`), `encoder` (batches to encoded or packed rows), `feature_map`, `fold` (what a
pass over the rows is), `tally` and `tails` (exact aggregates), `naming` and `judging` (numbers,
categories or ids), `merging` (rare levels), `winsor`, `wish` and `knots` (which basis), `notes`
(what is said of columns), `fit`, `raw` (the columns themselves, to publish). Other rooms
import from this page alone.
"""
