"""Records that end processes or that brokers refuse, until they are in the dead-letter topic."""
