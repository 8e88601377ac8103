"""Spark: its session (session.py), passes over its data frames (engine.py)."""
