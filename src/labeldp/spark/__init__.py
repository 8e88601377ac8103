"""All that knows Spark: tables on a cluster, passes over their parts, progress."""
