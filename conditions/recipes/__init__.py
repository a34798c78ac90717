"""Conditions that people ask for often, made of the nodes."""
