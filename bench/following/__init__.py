"""What questions about the waits of a bus cost: for commands, and for a follower."""
