"""Emits completion events of DAG runs and tasks: the listener at once, reconcile the missing ones later."""
