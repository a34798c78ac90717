"""The cost of completion events for a Spark job, and the speed of the data pipeline."""
