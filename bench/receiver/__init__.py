"""Benchmarks of the receiver, each beside a bare server or a plain producer."""
