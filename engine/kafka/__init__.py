"""The engine over librdkafka: the bus, its topics, and what all clients share."""
