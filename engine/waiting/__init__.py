"""What tasks that wait use: registering what they wait for, and following the action topic."""
