"""The registry: which registrations are in force, as the subscription topic says. No client of Kafka."""
