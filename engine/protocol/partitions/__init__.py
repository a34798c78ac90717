"""Which partitions are this engine's: taking them over, and what stops them."""
