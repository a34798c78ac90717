"""What the completion hooks cost a Spark job, and how fast the data pipeline is."""
