"""When a timer may fire: the cut, and the brokers' clock."""
