"""How fast the engine is beside a raw client loop, on a real broker: `make bench-engine`."""
