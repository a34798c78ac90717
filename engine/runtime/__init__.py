"""Runs engines and waits in a process: their threads, watchdog, status and metrics."""
