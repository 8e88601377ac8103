"""Spark: its session and its engine. Its data frames are read by `labeldp.data.cluster`.

session.py    the session, and the files and tables that it reads under a name
engine.py     SparkEngine: passes over the parts of a data frame
progress.py   how far a job is
"""
