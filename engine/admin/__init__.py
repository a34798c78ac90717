"""What administrators ask of a bus and change on it; none of it needs a running engine."""
