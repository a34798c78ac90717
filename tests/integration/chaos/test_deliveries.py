"""The oracle detects each kind of wrong delivery in logs written by hand, and nothing in correct ones."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from tests.chaos import deliverers
from tests.chaos.deliverers import IN_FLIGHT, Deliverers, failures
from tests.chaos.deliveries import Arrival, Deliveries, compare, read_arrivals, unacknowledged
from tests.chaos.judge import judge
from tests.chaos.paper import START_MS, Paper

SUBSCRIPTION = "chaos/deliver/s"
RIGHT = {"open": 0, "ended_by_themselves": 0, "missing": 0, "disordered": 0, "unexpected": 0} | {
    "firings": 100,
    "kills": 10,
    "repeated": 0,
}


def fired(paper: Paper, firing: str, state: str = "fired") -> None:
    form = {"v": 1, "subscription": SUBSCRIPTION, "state": state, "firing": {"id": firing}}
    paper.write("action", 1, f"{SUBSCRIPTION}\0{firing}".encode(), json.dumps(form).encode())


def dead(paper: Paper, firing: str, stage: str = "delivery") -> None:
    headers = [("interlock_stage", stage.encode()), ("interlock_origin", b"paper-action[0]@0")]
    paper.write("dead-letter", 1, f"{SUBSCRIPTION}\0{firing}".encode(), b"{}", headers=headers)


def paper_with(*firings: str) -> Paper:
    paper = Paper()
    for each in firings:
        fired(paper, each)
    return paper


def arrival(firing: str, sequence: int, *, key: str = "k", accepted: bool = True) -> Arrival:
    return Arrival(SUBSCRIPTION, firing, key, sequence, accepted)


def wrong(found: Deliveries) -> dict[str, int]:
    names = ("missing", "disordered", "unexpected")
    return {name: len(getattr(found, name)) for name in names if getattr(found, name)}


def test_firings_that_are_accepted_in_order_are_right() -> None:
    found = compare(
        paper_with("f1", "f2", "f3").log,
        [arrival("f1", 0, accepted=False), arrival("f1", 0), arrival("f3", 2, key="l"), arrival("f2", 1)],
    )
    assert (wrong(found), found.firings, found.repeated) == ({}, 3, 0)


def test_a_firing_that_was_never_accepted_is_missing_unless_it_is_a_dead_letter() -> None:
    paper = paper_with("f1", "f2")
    arrivals = [arrival("f1", 0, accepted=False)]
    assert wrong(compare(paper.log, arrivals)) == {"missing": 2}
    dead(paper, "f1")
    dead(paper, "f2", stage="source")
    found = compare(paper.log, arrivals)
    assert (wrong(found), found.dead_letters) == ({"missing": 1}, 1)


def test_an_earlier_firing_of_a_key_after_a_later_one_is_out_of_order() -> None:
    paper = paper_with("f1", "f2")
    assert wrong(compare(paper.log, [arrival("f1", 0), arrival("f2", 1), arrival("f1", 0)])) == {
        "disordered": 1
    }
    assert wrong(compare(paper.log, [arrival("f2", 1), arrival("f1", 0, key="l")])) == {}


def test_a_request_for_a_firing_that_does_not_exist_is_unexpected() -> None:
    assert wrong(compare(paper_with().log, [arrival("f1", 0)])) == {"unexpected": 1}


def test_a_firing_that_arrives_after_it_was_accepted_is_counted() -> None:
    again = [arrival("f1", 0), arrival("f1", 0, accepted=False), arrival("f1", 0)]
    assert compare(paper_with("f1").log, again).repeated == 2


def test_a_firing_is_open_until_its_last_record_is_an_acknowledgement() -> None:
    paper = paper_with("f1", "f2")
    fired(paper, "f1", "acked")
    assert unacknowledged(paper.log) == ["paper-action[0]@1 is not delivered"]
    fired(paper, "f1")  # fired again, or redriven
    assert len(unacknowledged(paper.log)) == 2


def test_the_sinks_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    log, written = tmp_path / "sink.log", [arrival("f1", 0), arrival("f1", 0, accepted=False)]
    log.write_bytes(b"".join(msgspec.json.encode(each) + b"\n" for each in written))
    assert read_arrivals(log) == written


def test_the_dead_letter_of_a_delivery_does_not_count_as_one_of_an_event() -> None:
    paper = Paper()
    dead(paper, "f1")
    assert not judge(paper.log, START_MS).differences


def test_a_run_fails_for_each_wrong_delivery_and_if_more_was_repeated_than_was_in_flight() -> None:
    assert failures(RIGHT, 100, 5) == []
    for name in ("missing", "disordered", "unexpected", "open", "ended_by_themselves"):
        assert failures(RIGHT | {name: 1}, 100, 5) == [f"deliveries: 1 {name}"]
    assert failures(RIGHT | {"repeated": 2 * IN_FLIGHT * 15}, 100, 5) == []
    assert len(failures(RIGHT | {"repeated": 2 * IN_FLIGHT * 15 + 1}, 100, 5)) == 1


def test_a_run_with_too_few_firings_or_kills_fails() -> None:
    assert len(failures(RIGHT | {"firings": 99}, 100, 5)) == 1
    assert len(failures(RIGHT | {"kills": 1}, 100, 5)) == 1
    assert failures(RIGHT | {"kills": 0}, 100, 0) == []  # a calm run


def test_deliverers_that_have_all_ended_are_replaced_before_one_of_them_is_to_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regression: there was none to choose, and IndexError ended the run."""
    started: list[Any] = []

    def start(name: str, *_: object, **__: object) -> Any:
        process = SimpleNamespace(returncode=-9, kill=lambda: None)
        ways = {"close": lambda: None, "die_at": lambda step: None, "terminate": lambda: None}
        started.append(SimpleNamespace(name=name, alive=True, process=process, **ways))
        return started[-1]

    monkeypatch.setattr(deliverers.EngineProcess, "start", start)
    monkeypatch.setattr(deliverers, "KILL_EVERY_S", 0.0)  # it is always time for one to end
    tended = Deliverers({"client": {}}, tmp_path, count=2, seed=1, say=lambda line: None)
    tended.start()
    for each in started:
        each.alive = False
    tended.tend()
    assert (len(started), tended.kills) == (4, 2)
