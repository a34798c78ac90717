"""The completion events of a Spark application, from its start to its outcome."""
