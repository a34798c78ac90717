"""Clients that threads share to read what datarefs name."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from interlock.engine.config import BusConfig
from interlock.engine.errors import FetchError
from interlock.engine.reading import references as module
from interlock.engine.reading.references import SharedReferences
from interlock.events import Event

CONFIG = BusConfig(name="b", client={"bootstrap.servers": "one:1"})
WAIT_S = 20.0


class Fake:
    """`References` that wait in `event` for the others of `together`. made: all of them."""

    made: list[Fake] = []  # noqa: RUF012  # emptied for each test
    together = threading.Barrier(1)

    def __init__(self, _: BusConfig) -> None:
        self.reads, self.closed = 0, 0
        self.made.append(self)

    def event(self, dataref: str) -> Event:
        self.reads += 1
        self.together.wait(WAIT_S)
        if not dataref:
            raise FetchError("nothing")
        return Event.of("t", "/s", id=dataref)

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> SharedReferences:
    monkeypatch.setattr(module, "References", Fake)
    monkeypatch.setattr(Fake, "made", [])
    return SharedReferences(CONFIG)


def test_threads_that_read_at_the_same_time_have_clients_of_their_own_which_are_used_again(
    shared: SharedReferences, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fake, "together", threading.Barrier(2))
    with ThreadPoolExecutor(2) as threads:
        assert [each.id for each in threads.map(shared.event, "12")] == ["1", "2"]
    monkeypatch.setattr(Fake, "together", threading.Barrier(1))
    with pytest.raises(FetchError):
        shared.event("")
    assert shared.event("3").id == "3"
    assert sorted(each.reads for each in Fake.made) == [1, 3]
    shared.close()
    assert [each.closed for each in Fake.made] == [1, 1]


def test_clients_that_are_being_used_are_closed_when_their_read_ends(
    shared: SharedReferences, monkeypatch: pytest.MonkeyPatch
) -> None:
    def event(self: Fake, _: str) -> Any:
        shared.close()
        assert self.closed == 0
        return Event.of("t", "/s", id="1")

    monkeypatch.setattr(Fake, "event", event)
    shared.event("1")
    assert [each.closed for each in Fake.made] == [1]
