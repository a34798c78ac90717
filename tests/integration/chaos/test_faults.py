"""Which engines a fault hits, and when it counts; without a broker."""

from __future__ import annotations

import random
import struct
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chaos import faults
from tests.chaos.faults import Planned, Pool
from tests.chaos.load import Idle
from tests.chaos.proxy import API_KEYS, GROUP, REFUSABLE, Rule, refusal

FETCH = 1


class Engine:
    """A fake engine process."""

    def __init__(self, name: str, skew_s: float) -> None:
        self.name, self.skew_s = name, skew_s
        self.alive, self.stopped, self.ordered_step, self.owning = True, False, None, None

    def look(self) -> None:
        pass

    def die_at(self, step: str | None) -> None:
        self.ordered_step = step

    def kill(self) -> None:
        self.alive = False

    terminate = kill


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A pool of two fake engines; `rules` are those given to the proxy."""
    rules: list[Rule] = []
    cluster: Any = SimpleNamespace(direct="x:1", proxy=SimpleNamespace(add=rules.append))
    monkeypatch.setattr(
        faults.EngineProcess, "start", lambda name, _bus, _folder, skew_s, _plant: Engine(name, skew_s)
    )
    monkeypatch.setattr(faults, "AdminClient", lambda _: None)
    made: Any = Pool(cluster, {"name": "b", "client": {}}, tmp_path, 2, 1, lambda _: None)
    made.rules = rules
    return made


def at_once(pool: Any) -> None:
    """Carries out delayed actions now."""
    pool._later = [(0.0, work) for _, work in pool._later]
    pool.tend()


def test_a_rule_takes_all_clients_of_its_engine_and_no_others() -> None:
    rule = Rule("cut", time.monotonic() + 60, client="engine-1")
    taken = {"engine-1", "b-engine-engine-1-0a1b2c"}
    others = {None, "", "engine-12", "b-engine-engine-12-0a1b2c", "b-engine-engine-2-0a1b2c"}
    assert {client for client in taken | others if rule.takes(FETCH, client)} == taken


def test_a_rule_with_once_applies_to_each_kind_of_request_of_each_client_once() -> None:
    rule = Rule("cut", time.monotonic() + 60, once=True)
    rule.met.add(("engine-1", FETCH))
    assert [rule.takes(FETCH, client) for client in ("engine-1", "b-engine-engine-1-0a1b2c")] == [False, True]
    assert rule.takes(API_KEYS["Heartbeat"], "engine-1")


def test_a_black_hole_counts_after_it_has_hit_its_victims_group_requests(pool: Any) -> None:
    pool.start()
    pool.do(Planned(0, "black-hole"))
    [rule] = pool.rules
    rule.hits, rule.met = 5, {("engine-1", FETCH)}
    pool.tend()
    assert pool.done.by_kind["black-hole"] == 0
    rule.met |= {("engine-1", api) for api in GROUP}
    pool.tend()
    assert (pool.done.by_kind["black-hole"], pool.busy) == (1, False)


def test_a_rule_without_effect_is_tried_again_on_as_many_engines(pool: Any) -> None:
    pool.do(Planned(0, "coordinator delay"))  # before any engine has joined
    assert pool.rules == []
    pool.start()
    at_once(pool)
    pool._engines[0].owning = 0.0
    for _ in range(20):
        pool.rules[-1].until = 0.0
        pool.tend()
        at_once(pool)
    assert len(pool.rules) == 21
    assert {rule.client for rule in pool.rules} == {None}
    assert pool.done.by_kind["coordinator delay"] == 0


def test_a_rule_without_effect_is_tried_again_only_on_an_engine_that_has_worked_for_a_while(
    pool: Any,
) -> None:
    """Otherwise several rules in turn keep a single engine from ever starting."""
    pool.start()
    pool.do(Planned(0, "black-hole"))
    pool.rules[0].until = 0.0
    pool.tend()
    for _ in range(5):
        at_once(pool)
    assert len(pool.rules) == 1
    pool._engines[1].owning = 0.0
    at_once(pool)
    assert [rule.client for rule in pool.rules[1:]] == ["engine-2"]


def test_a_kill_of_an_engine_at_work_waits_until_one_has_worked_for_a_while(pool: Any) -> None:
    pool.start()
    pool._kill_at("3 begin", at_work=True)
    at_once(pool)
    at_once(pool)
    assert not any(engine.ordered_step for engine in pool._engines)
    pool._engines[1].owning = 0.0
    at_once(pool)
    at_once(pool)
    assert [engine.ordered_step for engine in pool._engines] == [None, "3 begin"]
    pool._kill_at("3 begin", at_work=False)
    assert [engine.ordered_step for engine in pool._engines] == [None, "3 begin"], "one is left alone"


def test_an_engine_is_not_killed_early_after_the_previous_one_was(pool: Any) -> None:
    pool.scale(-1)
    pool._new()
    first = pool._engines[0]
    pool._kill_at("3 begin", at_work=False)
    assert first.ordered_step == "3 begin"
    first.alive, first.log, first.close = False, None, lambda: None
    first.process = SimpleNamespace(returncode=-9)
    pool.tend()
    second = pool._engines[0]
    pool._kill_at("3 begin", at_work=False)
    assert second.ordered_step is None
    second.owning = 0.0
    pool._kill_at("3 begin", at_work=False)
    assert second.ordered_step == "3 begin"


def test_nothing_is_tried_again_when_the_faults_are_over(pool: Any) -> None:
    pool.start()
    pool.do(Planned(0, "cut"))
    pool.rest()
    pool.rules[0].until = 0.0
    pool.tend()
    at_once(pool)
    assert (len(pool.rules), pool.busy) == (1, False)


def test_a_clock_skew_counts_only_after_an_engine_has_started_with_it(pool: Any) -> None:
    pool.do(Planned(0, "clock skew"))
    assert pool.done.by_kind["clock skew"] == 0
    pool.start()
    at_once(pool)
    assert pool.done.by_kind["clock skew"] == 1
    assert [bool(engine.skew_s) for engine in pool._engines] == [False, True]


def test_the_times_of_each_fault_excuse_late_firings(pool: Any) -> None:
    pool.start()
    before = len(pool.done.fault_times)
    pool.do(Planned(0, "black-hole"))
    began, ended = pool.done.fault_times[before:]
    assert ended - began >= 4_000
    pool.do(Planned(0, "kill"))
    assert len(pool.done.fault_times) == before + 3


@pytest.mark.parametrize(("version", "tags"), [(1, 0), (4, 2)])
def test_a_refusal_is_a_response_of_the_requests_version(version: int, tags: int) -> None:
    for api, (flexible, rest) in REFUSABLE.items():
        frame = refusal(api, version, 77, 14)
        length, correlation = struct.unpack_from(">ii", frame)
        assert (length, correlation) == (len(frame) - 4, 77)
        assert struct.unpack_from(">ih", frame, 8 + (version >= flexible)) == (0, 14)
        assert len(frame) == 14 + 2 * (version >= flexible) + len(rest)
    assert len(refusal(API_KEYS["EndTxn"], version, 1, 14)) == 14 + tags


def test_half_of_the_partitions_are_idle_for_most_of_each_minute() -> None:
    idle = Idle(random.Random(1), 6)
    found = []
    for elapsed_s in (0.0, 21.0, 59.0, 61.0, 81.0):
        idle.look(elapsed_s)
        found.append({idle.partition_of(b"%d" % n) for n in range(200)})
    assert found[0] == found[3] == {-1}
    assert found[1] == found[2]
    assert (len(found[1]), len(found[4])) == (3, 3)
    idle.for_good = True
    idle.look(121.0)
    assert idle.partition_of(b"k") != -1


def test_a_pool_that_is_scaled_starts_engines_and_stops_the_surplus_cleanly(pool: Any) -> None:
    pool.start()
    pool.scale(1)
    pool.tend()
    assert len(pool._engines) == 3
    first = list(pool._engines)
    pool.scale(-2)
    [left] = pool._engines
    assert left in first
    assert pool.done.kills == 0
    pool.tend()
    assert pool._engines == [left]
