"""The Kafka runtime: matches events against registrations, keeps what is half met, delivers firings."""
