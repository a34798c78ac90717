"""The nodes of a condition: matchers, combinations, windows and timers. Plain values."""
