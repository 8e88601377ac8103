"""All that knows Spark, and nothing else does.

session.py    the session, and the files and tables that it reads under a name
reader.py     ClusterReader: a data frame whose rows stay on the cluster
engine.py     SparkEngine: passes over the parts of a data frame
progress.py   how far a job is
"""

from labeldp.spark.engine import SparkEngine
from labeldp.spark.session import read

__all__ = ["SparkEngine", "read"]
