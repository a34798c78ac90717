"""What runs engines and waits in a process: their threads, their watchdog, their metrics."""
