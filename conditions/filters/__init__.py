"""Filters of one event: the dialects of CloudEvents Subscriptions, and `where` in CEL. All pure."""

from __future__ import annotations

from .cel.where import Where
from .dialects import All, Any, Exact, Not, Prefix, Sql, Suffix, filter_from_json
from .filter import Filter, FilterDecision

__all__ = [
    "All",
    "Any",
    "Exact",
    "Filter",
    "FilterDecision",
    "Not",
    "Prefix",
    "Sql",
    "Suffix",
    "Where",
    "filter_from_json",
]
