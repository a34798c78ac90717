"""How large records of the bus may be: what topics are made with, and what writers keep to."""

from __future__ import annotations

MAX_EVENT_BYTES = 1024 * 1024
# A state holds the events of all parts of a condition, and a dead letter gets headers on top.
MAX_INTERNAL_BYTES = 8 * 1024 * 1024
# Room for the record's key, headers and batch overhead below the topics' max.message.bytes.
MAX_VALUE_BYTES = MAX_INTERNAL_BYTES - 64 * 1024
