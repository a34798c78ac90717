"""The completion events of a Spark application: from its begin to its one outcome."""
