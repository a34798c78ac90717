"""The engine's protocols, sans I/O: decisions over the narrow interface of `engine.bus`."""
