"""Deferrable triggers: thin wrappers around the runtime of the process; and their settings."""
