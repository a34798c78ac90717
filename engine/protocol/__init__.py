"""The engine's protocols: decisions over the interface in `engine.bus`, without I/O of their own."""
