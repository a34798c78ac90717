"""What a condition is made of: matchers, and the nodes that join and bound them. Plain values."""
