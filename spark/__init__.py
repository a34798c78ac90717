"""Completion events of Spark applications. Nothing here imports pyspark before a session is given."""

from __future__ import annotations

from .completion.completion import Completion, completion_event, with_completion_event
from .settings import CompletionError

__all__ = ["Completion", "CompletionError", "completion_event", "with_completion_event"]
