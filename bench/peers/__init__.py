"""Interlock's waits compared with alternatives, on one machine and broker.

Each kind of wait runs in its own process (`host.py`), as in a triggerer: one event loop, no other load. All
read the event topic of a bus, on which each event is for one wait.
"""
