"""Learners that read a release; none of them costs privacy.

    api               LinearRegressor and BagRegressor, the scikit-learn estimators
    linear            fit a linear model:   normal_equations → fit_rules, shrinkage
    bags              fit a ReLU network on weighted bags:   training (torch)
    models            what was learnt: predicts raw rows, is saved and loaded
    summary           a linear fit for people: text, tables and pictures

scikit-learn is imported by `api` alone (and where a lasso is asked for), torch only to train.
"""
