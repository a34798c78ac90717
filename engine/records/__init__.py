"""The records of the internal topics, and the metadata of committed offsets.

Every record has a version `v`; `versions` defines which versions a release reads and writes.
"""

from __future__ import annotations

from .action import ActionRecord, FiringRecord
from .bus_record import BUS_KEY, BusRecord
from .codec import decode_json, decode_msgpack, encode_json, encode_msgpack
from .match import MatchRecord, MatchTarget
from .offsets import Condemned, DeliveryMetadata, OffsetMetadata, SuspectRecords
from .partitions import ProblemRecord, ResumeRecord, SourceRecord, registry_key
from .registration import (
    DEFAULT_MAX_KEYS,
    LEFTOVER,
    AtLimit,
    FailingRecord,
    Kind,
    LeaseRecord,
    Registration,
    RegistrationKey,
    RenewalRecord,
    is_leftover,
    partition_of,
    sink_key,
)
from .state import CLOCK_KEY, CLOCK_VALUE, MetaRecord, StateRecord, parse_state_key, state_key

__all__ = [
    "BUS_KEY",
    "CLOCK_KEY",
    "CLOCK_VALUE",
    "DEFAULT_MAX_KEYS",
    "LEFTOVER",
    "ActionRecord",
    "AtLimit",
    "BusRecord",
    "Condemned",
    "DeliveryMetadata",
    "FailingRecord",
    "FiringRecord",
    "Kind",
    "LeaseRecord",
    "MatchRecord",
    "MatchTarget",
    "MetaRecord",
    "OffsetMetadata",
    "ProblemRecord",
    "Registration",
    "RegistrationKey",
    "RenewalRecord",
    "ResumeRecord",
    "SourceRecord",
    "StateRecord",
    "SuspectRecords",
    "decode_json",
    "decode_msgpack",
    "encode_json",
    "encode_msgpack",
    "is_leftover",
    "parse_state_key",
    "partition_of",
    "registry_key",
    "sink_key",
    "state_key",
]
