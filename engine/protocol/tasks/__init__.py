"""The two hops: matching events on a source partition, stepping states on a trigger partition."""
