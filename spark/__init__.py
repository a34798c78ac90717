"""Completion events of Spark applications. Importing this package does not import pyspark."""

from __future__ import annotations

from .completion.completion import Completion, completion_event, with_completion_event
from .settings import CompletionError

__all__ = ["Completion", "CompletionError", "completion_event", "with_completion_event"]
