"""Size limits of records: topic settings and writers use them."""

from __future__ import annotations

# A state contains events for all matchers of its condition, and a dead letter has additional headers.
MAX_INTERNAL_BYTES = 8 * 1024 * 1024
# Room for the record's key, headers and batch overhead below the topics' max.message.bytes.
MAX_VALUE_BYTES = MAX_INTERNAL_BYTES - 64 * 1024
# A match refers to larger data instead of containing them: the state of a condition over a thousand events
# must fit in a record, and a task gets at most MAX_FIRING_BYTES anyway.
MAX_INLINE_BYTES = 64 * 1024
# Tasks get no larger firing: it would block a triggerer for seconds, and fill Airflow's database.
MAX_FIRING_BYTES = 48 * 1024
# An event with larger attributes becomes a dead letter, because every match contains all attributes.
MAX_ATTRIBUTE_BYTES = 256 * 1024
