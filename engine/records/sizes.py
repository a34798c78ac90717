"""The size limits of the bus's records, for topic settings and for writers."""

from __future__ import annotations

# A state has the events of all matchers of a condition, and a dead letter has additional headers.
MAX_INTERNAL_BYTES = 8 * 1024 * 1024
# Room for the record's key, headers and batch overhead below the topics' max.message.bytes.
MAX_VALUE_BYTES = MAX_INTERNAL_BYTES - 64 * 1024
# Larger data stay in the event's own record and are replaced by a reference: a condition over a thousand
# events must fit in a state, and a task gets at most MAX_HANDED_BYTES anyway.
MAX_INLINE_BYTES = 64 * 1024
# A firing as tasks get it. A larger one blocks a triggerer for seconds, and fills Airflow's database.
MAX_HANDED_BYTES = 48 * 1024
# The attributes of an event. Every match contains them whole.
MAX_READ_BYTES = 256 * 1024
