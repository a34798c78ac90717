"""The waits of a process: they register conditions and deliver firings from the action topic to tasks."""
