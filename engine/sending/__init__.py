"""Sends firings to HTTP sinks: docs/understand/engine/sinks.md."""
