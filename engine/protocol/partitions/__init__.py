"""The partitions that the group assigns to an engine: taking them over, and what keeps them unread."""
