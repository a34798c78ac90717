"""Delivery of firings to HTTP sinks, without I/O. Nothing starts it yet: docs/understand/engine/sinks.md."""
