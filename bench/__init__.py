"""Measurements anyone can repeat. Each benchmark is a file; figures are compared within one run only."""
