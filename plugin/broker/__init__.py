"""A Kafka broker for development: one real node, fetched, verified, started and stopped."""
