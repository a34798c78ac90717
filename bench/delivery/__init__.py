"""Benchmarks of deliveries to HTTP sinks, beside aiohttp alone."""
