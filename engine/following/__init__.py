"""The read model of a bus: what its subscription, state and action topics hold now, followed in a thread."""
