"""Kafka clients over librdkafka: the bus, the readers and writers of waits, topics and the admin client."""
