"""How large records of the bus may be: what topics are made with, and what writers keep to."""

from __future__ import annotations

# A state holds the events of all parts of a condition, and a dead letter gets headers on top.
MAX_INTERNAL_BYTES = 8 * 1024 * 1024
# Room for the record's key, headers and batch overhead below the topics' max.message.bytes.
MAX_VALUE_BYTES = MAX_INTERNAL_BYTES - 64 * 1024
# Data beyond this stay in the event's own record, and a reference travels: a condition of a thousand events
# must fit in a state, and a task is handed MAX_HANDED_BYTES anyway.
MAX_INLINE_BYTES = 64 * 1024
# Of a firing, whoever takes it: a larger one blocks a triggerer for seconds, and fills Airflow's database.
MAX_HANDED_BYTES = 48 * 1024
# Attributes are kept whole in every match.
MAX_READ_BYTES = 256 * 1024
