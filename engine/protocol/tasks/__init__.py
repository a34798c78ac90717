"""The two hops: matching events on source partitions, stepping states on trigger partitions."""
