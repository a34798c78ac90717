"""Records that end processes or that brokers refuse, and how they are set aside."""
