"""Leftovers: what is left of a removal or a replacement, and readers that began after compaction."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st
from interlock.engine.bus import Record
from interlock.engine.records import (
    LEFTOVER,
    Registration,
)
from interlock.engine.registry.registry import Registry
from msgspec.structs import replace

from tests.unit.engine.registry.registry_log import (
    A2,
    A,
    B,
    at,
    read,
    registered,
    removed,
)


def cleared_away(offset: int, key: bytes) -> Record:
    return replace(at(offset, key, None), headers=LEFTOVER)


def test_a_key_that_a_removal_left_is_a_leftover_until_its_own_null_which_removes_nothing_else() -> None:
    registry = read(
        registered(3, A, "n1"), registered(4, A, "n2"), removed(5, A, "n1"), registered(6, A, "n3")
    )
    leftover = f"{A.incarnation}:n2".encode()
    assert registry.leftovers(1005) == []
    assert registry.leftovers(1006) == [("a", leftover)]
    assert registry.keys("a") == {leftover, f"{A.incarnation}:n3".encode()}
    change = registry.apply(cleared_away(7, leftover))
    assert (change.added, change.removed, registry.leftovers(9999)) == ([], [], [])
    assert registry.get(A.incarnation).offset == 6
    assert registry.keys("a") == {f"{A.incarnation}:n3".encode()}


def test_the_records_of_a_replaced_incarnation_are_leftovers() -> None:
    registry = read(registered(3, A), registered(4, A2))
    assert registry.leftovers(9999) == [("a", f"{A.incarnation}:n".encode())]


def test_a_removal_of_all_keys_leaves_nothing() -> None:
    registry = read(registered(3, A, "n1"), registered(4, A, "n2"), removed(5, A, "n1"), removed(6, A, "n2"))
    assert registry.leftovers(9999) == []


def test_a_registration_has_the_same_place_for_readers_that_missed_a_compacted_removal() -> None:
    # n1@3 and its removal @5 are gone; n3 came @6, and the leftover n2@4 was nulled @8
    read_later = [
        registered(7, B),
        cleared_away(8, f"{A.incarnation}:n2".encode()),
        at(9, b"lease/p/0", None),
    ]
    registry = read(registered(4, A, "n2"), registered(6, A, "n3"), *read_later)
    assert registry.get(A.incarnation).offset == 6
    assert registry.get(A.incarnation).timestamp_ms == 1006
    assert [r.offset for r in registry.between(0, 99)] == [6, 7]
    assert registry.by_name("a") is registry.get(A.incarnation)


def test_a_leftover_alone_whose_removal_is_gone_is_in_force_until_it_is_nulled() -> None:
    registry = read(registered(4, A, "n2"))
    change = registry.apply(cleared_away(8, f"{A.incarnation}:n2".encode()))
    assert [gone.offset for gone in change.removed] == [4]
    assert (len(registry), registry.orphans(9999), registry.by_name("a")) == (0, [], None)


LAG = 6  # in steps of a history
HISTORIES = st.lists(
    st.tuples(st.sampled_from(["register", "remove", "clear away", "wait"]), st.integers(0, 2**16)),
    max_size=30,
)


class History:
    """A registry topic that users and engines write to; `live` has read it from its beginning.

    What is left over is cleared away in time: before the brokers clean what left it (LAG later).
    """

    def __init__(self) -> None:
        self.live, self.log = Registry(), []
        self._steps: list[int] = []  # when each record was written
        self._keys: list[tuple[Registration, str]] = []
        self._since: dict[bytes, int] = {}

    def _write(self, record: Record) -> None:
        self.log.append(record)
        self._steps.append(self._step)
        self.live.apply(record)
        for _, key in self.live.leftovers(2**62):
            self._since.setdefault(key, self._step)

    def do(self, step: int, what: str, which: int) -> None:
        self._step = step
        for _, key in self.live.leftovers(2**62):
            if step - self._since[key] >= LAG - 1:
                self._write(cleared_away(len(self.log), key))
        offset = len(self.log)
        if what == "register":
            self._keys.append(((A, A2)[which % 8 == 0], f"n{offset}"))
            self._write(registered(offset, *self._keys[-1]))
        elif what == "remove" and self._keys:  # of some keys only, or once more
            registration, nonce = self._keys[-1 - which % min(4, len(self._keys))]
            self._write(removed(offset, registration, nonce))
        elif what == "clear away" and self._since:  # by two engines at once, or beside a removal
            self._write(cleared_away(offset, [*self._since][-1 - which % min(4, len(self._since))]))
        else:
            self._write(at(offset, b"lease/p/0", None))

    def compacted(self, clean: int, expired: int) -> list[Record]:
        """Cleaned up to a record older than LAG; removals LAG older than that may be gone too."""
        aged = [step <= self._step - LAG for step in self._steps]
        clean %= sum(aged) + 1
        last = {record.key: record.offset for record in self.log[:clean]}
        until = -1 if clean < 1 else min(expired, self._steps[clean - 1] - LAG)
        return [
            record
            for record, step in zip(self.log, self._steps, strict=True)
            if record.offset >= clean
            or (last[record.key] == record.offset and (record.value is not None or step > until))
        ]


def in_force(registry: Registry) -> list[tuple[str, int, int]]:
    return [(r.incarnation, r.offset, r.timestamp_ms) for r in registry.between(0, 2**62)]


@settings(max_examples=400)
@given(HISTORIES, st.integers(0, 2**16), st.integers(0, 60))
def test_a_read_of_the_compacted_registry_agrees_with_a_read_of_all(
    steps: Sequence[tuple[str, int]], clean: int, expired: int
) -> None:
    history = History()
    for step, (what, which) in enumerate(steps):
        history.do(step, what, which)
    reader = read(*history.compacted(clean, expired))
    assert in_force(reader) == in_force(history.live)
    assert sorted(reader.leftovers(2**62)) == sorted(history.live.leftovers(2**62))
