"""Spark: its session and passes over its data frames."""
