"""Features: numeric and categorical columns become design columns on public grids.

fit_features(source) → FeatureMap      two or three streamed passes over features; no label
map.encode(batch) → Encoded            exact integer codes, for sums
map.design(rows) → matrix              float64 values, for prediction

fit.py             fit_features; clipping at public quantiles
formula.py         "price ~ spline(age) + sex*edu"
column_stats.py    exact statistics of columns; numbers, categories or ids
columns.py         numeric columns on their grids
categories.py      categorical columns; merging of rare levels
basis.py           functions of columns that join them
encoder.py         from batches to encoded or packed rows
feature_map.py     FeatureMap; raw columns to publish, and rows that were not fitted
"""
