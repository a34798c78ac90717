"""Deferrable triggers: thin, they ask the process-wide runtime."""
