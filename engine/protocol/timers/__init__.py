"""When a timer may fire: the cut."""
