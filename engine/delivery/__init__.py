"""Delivery of firings to HTTP sinks, without I/O: docs/understand/engine/sinks.md."""
