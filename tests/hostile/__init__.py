"""Hostile conditions: what is tried, how it must end, and how often it was tried."""
