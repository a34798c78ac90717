"""Reading source partitions behind their live position, for registrations that look back."""
