"""Predicates in CEL, with a limit on their cost."""
