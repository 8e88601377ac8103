"""Learners that read a release.

    LinearRegressor   least squares, ridge and bounded norm, with exact intervals
    BagRegressor      a neural network on weighted bags; needs the extra "torch" to fit
    WeightedBags      what it learns from: rows with weights, grouped, one label a group
    load_model        what either has saved, without scikit-learn

Names are imported when first used: scikit-learn by the two estimators alone, torch only when a
network is fitted. A learner is a module that declares itself (`protocol.Learner`) and its line in
`registry.LEARNERS`. Other rooms import from this page alone.
"""
