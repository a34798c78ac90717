"""Reading the events of a bus without a consumer group; nothing is committed."""
