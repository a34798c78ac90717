"""Delivery of firings to HTTP sinks, without I/O. Not in use yet: docs/understand/engine/sinks.md."""
