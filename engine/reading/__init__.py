"""Reads the events of a bus without a consumer group. Commits nothing."""
