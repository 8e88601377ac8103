"""Features: numeric and categorical columns become design columns on public grids.

fit_features(source) → FeatureMap      two or three streamed passes over features; no label
map.encode(batch) → Encoded            exact integer codes, for sums
map.design(rows) → matrix              float64 values, for prediction

fit.py             fit_features
formula.py         "price ~ spline(age) + sex*edu"
column_stats.py    exact statistics of columns and their accumulators
column_names.py, column_type.py        numbers, categories or ids
winsor.py          clipping at public quantiles
levels.py, rare_levels.py              values of categories as text; merging of rare ones
grid.py, columns.py                    one encoded column
joint_codes.py     categories that share a code
basis.py, terms.py, random_fourier.py, basis_fit.py    functions of columns that join them
encoder.py         from batches to encoded or packed rows
feature_map.py     FeatureMap
raw_rows.py        raw columns to publish, and rows that were not fitted
notes.py           notes on columns
"""
