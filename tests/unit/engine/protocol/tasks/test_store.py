"""What is kept for a trigger partition: what comes back after an abort or a recovery, and what is due."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock.conditions import EMPTY
from interlock.engine.bus import Record, TopicPartition
from interlock.engine.config import BusConfig
from interlock.engine.errors import RecordError, UnknownVersion
from interlock.engine.protocol.outputs import Outputs
from interlock.engine.protocol.tasks.store import Entry, KeyStates, Store
from interlock.engine.protocol.tasks.wakeups import Wakeup
from interlock.engine.records import MetaRecord, StateRecord, encode_msgpack

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "nowhere"})
STATE = TopicPartition("b-state", 0)
FAR = 10**9
# What is kept, as plain values: (offset, marks, only, keys), by incarnation.
Content = dict[str, tuple[int, dict[str, int], Entry | None, dict[str, Entry]]]


def content(store: Store) -> Content:
    found: Content = {}
    for incarnation in store:
        kept = store.get(incarnation)
        found[incarnation] = (kept.registry_offset, dict(kept.marks), kept.only, dict(kept.keys))
    return found


def due(store: Store) -> list[tuple[int, str, str]]:
    """All that is due, in order; it leaves no trace but in the heaps."""
    found = []
    for wakeup in store.due(FAR):
        found.append(tuple(wakeup))
        store.close(wakeup.incarnation, store.get(wakeup.incarnation), wakeup.key)
    return found


def expected_due(of: Content) -> list[tuple[int, str, str]]:
    return sorted(
        (entry[0], incarnation, key)
        for incarnation, (_, _, only, keys) in of.items()
        for key, entry in ({SINGLE: only} if only is not None else keys).items()
        if entry is not None and entry[0] is not None
    )


def written(store: Store) -> list[tuple[bytes, bytes | None]]:
    outputs = Outputs(CONFIG, 1)
    store.write(outputs, 0)
    return [(o.key or b"", o.value) for o in outputs.records]


def recovered(log: Sequence[tuple[bytes, bytes | None]]) -> Store:
    store = Store()
    for n, (key, value) in enumerate(log):
        store.load(Record(STATE, n, 0, key, value, None))
    for incarnation in store:
        kept = store.get(incarnation)
        store.resolve(kept, SINGLE if incarnation == "single" else None, incarnation != "closing")
    store.loaded()
    return store


@pytest.mark.parametrize("damaged", [b"", b"\xc1", b"\x90" * 9, b"{}", "é".encode()])
def test_a_damaged_state_is_not_idle_and_hides_no_idle_key(damaged: bytes) -> None:
    """With it in the store, no new key of its subscription got room: their events became dead letters."""
    kept = KeyStates(0, keys={"damaged": (None, damaged), "idle": (None, EMPTY.encode())})
    assert Store.first_idle(kept) == "idle"
    assert Store.first_idle(KeyStates(0, keys={"damaged": (None, damaged)})) is None


SINGLE = "s"
INCARNATIONS = ("single", "keyed", "closing")
CHANGES = st.lists(
    st.tuples(
        st.sampled_from(["put", "put", "put", "close", "mark", "drop", "look"]),
        st.sampled_from(INCARNATIONS),
        st.sampled_from(["p", "q", "r"]),
        st.integers(1, 30),
    ),
    max_size=12,
)
PASSES = st.lists(st.tuples(CHANGES, st.sampled_from(["commit", "abort", "recover"])), max_size=12)


def change(store: Store, what: str, incarnation: str, key: str, number: int) -> None:
    if what == "look":
        assert store.next_wakeup == min((entry[0] for entry in expected_due(content(store))), default=None)
        return
    if what == "drop":
        store.drop(incarnation)
        return
    kept = store.get(incarnation)
    if kept is None:
        kept = KeyStates(number)
        store.resolve(kept, SINGLE if incarnation == "single" else None, incarnation != "closing")
        store.add(incarnation, kept)
    key = kept.single or key
    if what == "put":
        store.put(incarnation, kept, key, number, b"%d" % number)
    elif what == "close":
        store.close(incarnation, kept, key)
    else:
        store.touch(incarnation)
        kept.marks["t/0"] = number


@settings(max_examples=300, deadline=None)
@given(PASSES)
def test_an_abort_and_a_recovery_restore_the_committed_states_whatever_a_pass_did(
    passes: Sequence[tuple[Sequence[tuple[str, str, str, int]], str]],
) -> None:
    store, log = Store(), list[tuple[bytes, bytes | None]]()
    for changes, end in passes:
        before, open_before = content(store), store.open_keys
        for what, incarnation, key, number in changes:
            change(store, what, incarnation, key, number)
        after = content(store)
        assert store.open_keys == sum(len(keys) + (only is not None) for _, _, only, keys in after.values())
        if end == "abort":
            written(store)
            store.rollback()
            assert (content(store), store.open_keys, store.pending) == (before, open_before, 0)
        else:
            log += written(store)
            store.committed()
            assert content(recovered(log)) == after
            assert recovered(log).open_keys == store.open_keys
            if end == "recover":
                store = recovered(log)
        now = content(store)
        assert store.timer_due(15) == any(
            at_ms <= 15 and incarnation != "closing" for at_ms, incarnation, _ in expected_due(now)
        )
        later = list[tuple[KeyStates, Wakeup]]()
        for wakeup in store.due(15):
            kept = store.get(wakeup.incarnation)
            store.postpone(wakeup)
            later.append((kept, wakeup))
        assert all(at_ms > 15 for at_ms in [store.next_wakeup] if at_ms is not None)
        for kept, wakeup in later:
            store.put_back(kept, wakeup)
        assert due(store) == expected_due(now)
        store.rollback()


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        (b"inc/k", b"rubbish", RecordError),
        (b"inc/k", b"", RecordError),
        (b"inc/k", b"\x93\x01\x91", RecordError),
        (b"inc/k", encode_msgpack(StateRecord(9, 0, None, b"")), UnknownVersion),
        (b"inc", encode_msgpack(MetaRecord(9, 0, {}, False, False, None)), UnknownVersion),
        (b"inc", b"\x90", RecordError),
        (b"inc", b"rubbish", RecordError),
    ],
)
def test_a_record_that_cannot_be_read_is_an_error_that_names_it(
    key: bytes, value: bytes, error: type[RecordError]
) -> None:
    with pytest.raises(error, match=r"b-state\[0\]@4"):
        Store().load(Record(STATE, 4, 0, key, value, None))


def test_what_was_opened_and_closed_in_one_pass_is_not_written() -> None:
    store = Store()
    change(store, "put", "keyed", "p", 5)
    change(store, "close", "keyed", "p", 5)
    change(store, "put", "single", "s", 5)
    change(store, "drop", "single", "s", 5)
    assert [key for key, _ in written(store)] == [b"keyed"]


def test_a_key_written_again_counts_once_in_what_a_pass_has_to_write() -> None:
    store = Store()
    for incarnation in ("single", "keyed"):
        for number in (10, 200, 3000):
            change(store, "put", incarnation, "p", number)
    assert store.pending_bytes == 2 * len(b"3000")
