"""Measurements anyone can repeat. Each question is a file; figures are compared within one run only."""
