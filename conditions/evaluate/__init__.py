"""Evaluation: a condition's plan, its state, and `step`."""
