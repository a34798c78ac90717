"""The engine's protocols. All their I/O goes through the interface in `engine.bus`."""
