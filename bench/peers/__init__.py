"""Interlock's waits beside what people use in their place, on one machine and broker.

Each kind of wait has a process of its own (`host.py`), as in a triggerer: one event loop, no other load. All
read the event topic of a bus, on which each event is for one wait.
"""
