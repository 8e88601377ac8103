"""Spark: its session (session.py) and its engine; data frames: `labeldp.data.cluster`."""
