"""The mechanisms: one class in one file each, and what they share.

base               the class `Mechanism`, and the plan that a mechanism makes
registry           all mechanisms that there are
wtd_flag, sampled_wtd_flag, sampled_noisy_wtd_lag    Algorithms 1 to 3 of the paper
shaped_flag        sums with public weights and shaped noise; noise_shape is its optimiser,
                   active_rows what that works on
noisy_rows         every row's label with noise
options            options of `plan` and `labeldp account`, quick to import
design_summary     what plans need to know of the features; forecast: the error of a fit
residual_floor     claims that rest on a residual floor; noise_claim: on noise, and its laws
bags               bags of rows, drawn from a public seed
checks                  tests of published numbers
"""
