"""From a table and a budget to a plan: which mechanism, which basis, and whether it is worth it.

verbs       `plan`, and its forecast along ε
auto        the mechanism that adds least
comparison  every mechanism's forecast side by side; bags are simulated
bases       the richest basis that privacy adds little to
worth       what a plan that cannot beat the mean of the labels is refused with, and its cures

Mechanisms are known by their declarations alone. Other rooms import from this page alone.
"""
