"""Predicates in CEL, and what bounds their cost."""
