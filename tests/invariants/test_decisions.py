"""I5, I7, I9, I10, I14: decisions on events, their cost, and what is kept (docs/understand/design.md)."""

from __future__ import annotations

import gc
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any, Final

import interlock
import msgspec
from interlock import Event, count, event
from interlock.conditions import Cancel, Condition, Hit, Match, MatcherIndex, State, Tick, opened, rehearsal
from interlock.conditions.evaluate import run, seen, slots
from interlock.conditions.evaluate.run import Run
from interlock.conditions.evaluate.step import step
from interlock.conditions.filters import Where
from interlock.conditions.index import matcher_index
from interlock.conditions.index.checks import Check
from interlock.engine.protocol.context import EngineLimits
from interlock.engine.protocol.tasks import evaluator
from interlock.engine.protocol.tasks.evaluator import Evaluator
from interlock.engine.protocol.tasks.store import Store
from interlock.engine.records import CLOCK_KEY, MetaRecord, Registration, decode_msgpack, parse_state_key
from interlock.events.kafka import encode

from tests.invariants.durable import durable, ids_fired
from tests.invariants.needs import Patch, needs, without
from tests.kit.made_of import MadeOf
from tests.kit.pool import DEAD, EVENT, STATE, TRIGGER, Pool
from tests.simulation import follower
from tests.simulation.subscriptions import UNKEYED, WITH_TIMERS, WITHOUT_TIMERS

ALL: Final = (*WITHOUT_TIMERS, *WITH_TIMERS, *UNKEYED)
MONTH_MS: Final = 31 * 24 * 3600 * 1000
NAP_MS: Final = 5 * 3600 * 1000  # an engine that has not read the registry for longer ends
STEP: Final = sys.modules["interlock.conditions.evaluate.step"]  # the package has a function of its name
PAIR: Final = event("x") & event("y")


# -- I5


def _remembering_events(patch: Patch) -> None:
    for module in (run, slots):
        patch.setattr(module, "is_seen", lambda *_: False)


def _remembering_beyond_a_firing(patch: Patch) -> None:
    class Forgetful(Run):
        def consume(self, found: Any) -> None:
            super().consume(found)
            self.seen = b""

    patch.setattr(STEP, "Run", Forgetful)


def _remembering_beyond_a_firing_by_slots(patch: Patch) -> None:
    def forgetful(plan: Any, state: State, match: Match) -> Any:
        after, firings = step_slots(plan, state, match)
        return (msgspec.structs.replace(after, seen=b"") if firings else after), firings

    step_slots = slots.step_slots
    patch.setattr(STEP, "step_slots", forgetful)


@needs(_remembering_events, _remembering_beyond_a_firing, _remembering_beyond_a_firing_by_slots)
def test_i5_a_repeat_of_an_event_does_not_count_also_across_a_firing_and_a_takeover() -> None:
    pool = Pool(durable("two", count(event("x"), 2)), durable("pair", PAIR))
    pool.boot()
    for text in ("x1", "x1", "y2", "x1", "y2"):
        pool.emit(text[0], event_id=text[1])
    pool.run()
    assert ids_fired(pool, "two") == []
    pool.kill()
    pool.boot("another")
    for text in ("x1", "x3", "x1", "y2", "x3", "x4", "y5"):
        pool.emit(text[0], event_id=text[1])
    pool.run()
    assert ids_fired(pool, "two") == [["1", "3"]]
    assert ids_fired(pool, "pair") == [["1", "2"], ["4", "5"]]


def _remembering_64_events(patch: Patch) -> None:
    patch.setattr(seen, "SEEN_BYTES", 60 * 8)


def _remembering_for_an_hour(patch: Patch) -> None:
    for module in (run, slots, evaluator):
        patch.setattr(module, "SEEN_MS", 60_000)


@needs(_remembering_64_events, _remembering_for_an_hour)
def test_i5_the_horizon_is_64_events_of_a_key_or_an_hour() -> None:
    pool = Pool(durable("d", event("x")))
    pool.boot()
    ids = [f"{n}" for n in range(64)]
    for event_id in (*ids, ids[0]):
        pool.emit("x", event_id=event_id)
    pool.run()
    pool.cluster.now_ms += 58 * 60_000
    pool.run()
    pool.emit("x", event_id=ids[-1])
    pool.run()
    assert ids_fired(pool, "d") == [[event_id] for event_id in ids]


# -- I7


def _leaving_what_takes_no_part(patch: Patch) -> None:
    class Greedy(Run):
        def consume(self, found: Any) -> None:
            super().consume(found)
            self.pools = [[] for _ in self.pools]

    patch.setattr(STEP, "Run", Greedy)


def _leaving_what_takes_no_part_by_slots(patch: Patch) -> None:
    patch.setattr(slots, "holds_any", lambda held, mask: True)


@needs(_leaving_what_takes_no_part, _leaving_what_takes_no_part_by_slots)
def test_i7_a_firing_consumes_the_events_that_took_part_and_leaves_the_pending_ones() -> None:
    pending = event("b") & event("c")
    pool = Pool(durable("slots", event("a") | pending), durable("run", count(event("a"), 2) | pending))
    pool.boot()
    for kind, event_id in (("b", "b1"), ("a", "a1"), ("a", "a2"), ("c", "c1"), ("c", "c2")):
        pool.emit(kind, event_id=event_id)
    pool.run()
    assert ids_fired(pool, "slots") == [["a1"], ["a2"], ["b1", "c1"]]
    assert ids_fired(pool, "run") == [["a1", "a2"], ["b1", "c1"]]


# -- I9

_ROOT = Path(interlock.__file__).parent


def operations(work: Callable[[], object]) -> int:
    """How many bytecodes of the package `work` runs."""
    total = 0

    def local(frame: FrameType, kind: str, _: Any) -> Any:
        nonlocal total
        total += kind == "opcode"
        return local

    def tracer(frame: FrameType, kind: str, _: Any) -> Any:
        path = Path(frame.f_code.co_filename)
        if not path.is_relative_to(_ROOT) or path.is_relative_to(_ROOT / "tests"):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return local

    before = sys.gettrace()
    sys.settrace(tracer)
    try:
        work()
    finally:
        sys.settrace(before)
    return total


def strangers(number: int) -> list[tuple[Condition, str | None]]:
    """Subscriptions that MINE does not match: `number` of each kind."""
    found: list[tuple[Condition, str | None]] = []
    for n in range(number):
        found += [
            (event(f"other-{n}"), None),
            (event("x", by="data.k"), f"key-{n}"),  # waits on other keys of the same matcher
            (event("x", subject=f"subject-{n}"), None),
            (event("x", where=f"data.region == 'region-{n}'"), None),
            (event("x", by="data.k") & event(f"y-{n}", by="data.k"), f"key-{n}"),
        ]
    return found


MINE = Event.of("x", "/s", id="1", subject="mine", data={"k": "mine", "region": "here"})


def _an_index(patch: Patch) -> None:
    """Checks one subscription after the other."""

    def one_by_one(self: MatcherIndex[Any], made: Event) -> list[Hit[Any]]:
        hits = []
        for handle, (condition, own) in self._subscriptions.items():
            for number, matcher in enumerate(condition.matchers):
                key = matcher.key_of(made) if matcher.by is not None else own or ""
                if matcher.accepts(made) and key is not None and own in (None, key):
                    hits.append(Hit(handle, (number,), key))
        return hits

    patch.setattr(MatcherIndex, "lookup", one_by_one)


def _cost_of_a_lookup(number: int) -> int:
    index: MatcherIndex[object] = MatcherIndex()
    index.add("mine", event("x", by="data.k"), "mine")
    for n, (condition, key) in enumerate(strangers(number)):
        index.add(n, condition, key)
    index.lookup(MINE)  # fills caches
    found: list[Hit[object]] = []
    cost = operations(lambda: found.extend(index.lookup(MINE)))
    assert [hit.handle for hit in found] == ["mine"]
    return cost


@needs(_an_index)
def test_i9_a_lookup_does_not_cost_more_with_a_hundred_times_as_many_that_do_not_match() -> None:
    assert _cost_of_a_lookup(200) == _cost_of_a_lookup(2)


def _cost_of_passes(number: int) -> int:
    pool = Pool(Registration.of("mine", event("x", by="data.k"), "mine", 0))
    for n, (condition, key) in enumerate(strangers(number)):
        pool.register(Registration.of(f"w{n}", condition, key, 0, kind="one-shot"))
    engine = pool.start(passes=40)
    pool.emit("x", {"k": "mine", "region": "here"})
    engine.run_pass()  # fills caches
    pool.run(40)
    assert pool.fired() == [("mine", "met")]
    pool.emit("x", {"k": "nobody's", "region": "here"})
    return operations(engine.run_pass)


@needs(_an_index)
def test_i9_a_pass_of_the_engine_does_not_cost_more_with_more_waits_that_do_not_match() -> None:
    few, many = _cost_of_passes(2), _cost_of_passes(60)
    assert many <= 1.05 * few, f"{few} operations beside 10 others, {many} beside 300"


def _evaluating_a_filter_once_an_event(patch: Patch) -> None:
    patch.setattr(Check, "passes", lambda self, made, turn: self.evaluate(made, turn))


@needs(_evaluating_a_filter_once_an_event, _an_index)
def test_i9_equal_filters_and_equal_keys_are_evaluated_once_an_event() -> None:
    asked: list[str] = []
    index: MatcherIndex[int] = MatcherIndex()
    where = "data.region.startsWith('h')"
    more: tuple[dict[str, str], ...] = ({}, {"subject": "mine"}, {"source": "/s"})
    for n in range(60):
        index.add(n, event("x", where=where, by="data.k", **more[n % 3]), "mine" if n < 6 else f"other-{n}")
    verdict, key_at = Where.verdict, matcher_index.key_at

    def counted_verdict(self: Where, made: Event) -> Any:
        asked.append("filter")
        return verdict(self, made)

    def counted_key(by: Any, made: Event) -> Any:
        asked.append("key")
        return key_at(by, made)

    with Patch.context() as counting:
        counting.setattr(Where, "verdict", counted_verdict)
        counting.setattr(matcher_index, "key_at", counted_key)
        assert len(index.lookup(MINE)) == 6
    assert sorted(asked) == ["filter", "key"]


# -- I10


class StoreWithoutClosings(Store):
    """Does not look at keys that only close."""

    def first_closing(self) -> None:
        return None


TIME_TO_LIVE: Final = without("a time to live", limits=EngineLimits(ttl_ms=1 << 50))
CLOSINGS: Final = without("looking at keys that only close", store=StoreWithoutClosings)


def states_left(pool: Pool) -> list[bytes]:
    """The keys whose state is kept in the state topic, as compaction leaves it."""
    left = []
    last = dict(pool.records(STATE))
    for record_key, value in last.items():
        if value is None or record_key == CLOCK_KEY:
            continue
        _, key = parse_state_key(record_key or b"")
        if key is not None or decode_msgpack(MetaRecord, value, "a state").only is not None:
            left.append(record_key or b"")
    return left


@needs(TIME_TO_LIVE, CLOSINGS)
def test_i10_every_key_of_every_kind_of_condition_closes_and_leaves_nothing(made_of: MadeOf) -> None:
    pool = Pool(*(durable(f"d{n}", condition) for n, condition in enumerate(ALL)), made_of=made_of)
    pool.boot()
    for n in range(40):
        made = Event.of("abc"[n % 3], "/s", id=f"{n}", subject=f"k{n % 20}")
        pool.write(EVENT, *encode(made))
    pool.run()
    most = pool.engines["one"].ownership.triggers[TRIGGER].open_keys
    assert most > len(ALL)
    pool.kill()
    pool.boot("another")  # which learns from the topic when keys close
    pool.run()
    pool.run(MONTH_MS // NAP_MS + 1, pass_ms=NAP_MS)
    pool.run(100, pass_ms=500)
    left = pool.engines["another"].ownership.triggers[TRIGGER].open_keys
    assert left == 0, f"of {most} keys {left} are open after a month"
    assert states_left(pool) == []


class EvaluatorWithoutLimit(Evaluator):
    def is_at_limit(self, *_: Any) -> bool:
        return False


LIMIT: Final = without("a limit", evaluator=EvaluatorWithoutLimit)


@needs(LIMIT)
def test_i10_the_open_keys_of_a_subscription_are_limited(made_of: MadeOf) -> None:
    pool = Pool(durable("d", event("x", by="data.k") & event("y", by="data.k"), max_keys=10), made_of=made_of)
    pool.boot()
    for n in range(30):
        pool.emit("x", {"k": n})
    pool.run()
    assert pool.engines["one"].ownership.triggers[TRIGGER].open_keys == 10
    assert len(pool.records(DEAD)) == 20


# -- I14


def inputs(condition: Condition, seed: int) -> list[Match | Tick | Cancel]:
    """Matches and ticks for one key, as they may come."""
    chance = Random(f"{condition} {seed}")
    now_ms, offset, found = 1_000_000, 0, []
    while len(found) < 40:
        now_ms += chance.choice((0, 200, 900, 2500))
        if chance.random() < 0.25:
            found.append(Tick(now_ms))
            continue
        made = Event.of(
            chance.choice("abc"), chance.choice(("s0", "s1")), id=str(chance.randrange(30)), subject="k0"
        )
        numbers = tuple(n for n, matcher in enumerate(condition.matchers) if matcher.accepts(made))
        if numbers:
            offset += 1
            found.append(Match(made, numbers, "t", 0, offset, now_ms - chance.choice((0, 0, 1500))))
    return [*found, Cancel()]


def folds() -> Iterator[tuple[Condition, State, Match | Tick | Cancel]]:
    """Conditions of every kind, with states and inputs that they come to."""
    for condition in ALL:
        for seed in range(4):
            state = opened(condition, 1_000_000) if seed % 2 else State()  # not EMPTY, which all share
            for each in inputs(condition, seed):
                yield condition, state, each
                state, _ = step(condition, State.decode(state.encode()), each)


def _leaving_the_state_as_it_was(patch: Patch) -> None:
    class Sharing(Run):
        def __init__(self, plan: Any, state: State) -> None:
            super().__init__(plan, state)
            self.timer_starts = state.timer_starts

    patch.setattr(STEP, "Run", Sharing)


def _keeping_away_from_clocks(patch: Patch) -> None:
    class Timed(Run):
        def result(self) -> Any:
            state, firings = super().result()
            return msgspec.structs.replace(state, clock_ms=time.time_ns()), firings

    patch.setattr(STEP, "Run", Timed)


@needs(_leaving_the_state_as_it_was, _keeping_away_from_clocks)
def test_i14_equal_arguments_give_equal_results_and_stay_as_they_were() -> None:
    fired = 0
    for condition, state, each in folds():
        before, came = state.encode(), msgspec.msgpack.encode(each)
        first = step(condition, state, each)
        assert state.encode() == before, f"{condition}: the state was changed"
        assert msgspec.msgpack.encode(each) == came, f"{condition}: the input was changed"
        assert step(condition, state, each) == first, f"{condition}: another result"
        again = step(condition, State.decode(before), each)  # as in another process
        assert again == first, f"{condition}: another result from the stored state"
        fired += len(first[1])
    assert fired > 100


_FORBIDDEN: Final = {
    "time",
    "io",
    "_io",
    "posix",
    "nt",
    "socket",
    "_socket",
    "select",
    "random",
    "_random",
    "os",
}
_CLOCKS: Final = {"now", "utcnow", "today"}


def calls_outside(work: Callable[[], object]) -> set[str]:
    """The calls of clocks, files, sockets and random generators by `work`."""
    found: set[str] = set()

    def profiler(frame: FrameType, kind: str, called: Any) -> None:
        if kind == "c_call":
            owner = getattr(called, "__self__", None)
            module = getattr(called, "__module__", None) or type(owner).__module__
            name = str(getattr(called, "__name__", ""))
            if module in _FORBIDDEN or name in _CLOCKS:
                found.add(f"{module}.{name}")

    before = sys.getprofile()
    gc.disable()  # garbage of earlier tests would be closed meanwhile, and count as calls of `work`
    sys.setprofile(profiler)
    try:
        work()
    finally:
        sys.setprofile(before)
        gc.enable()
    return found


@needs(_keeping_away_from_clocks)
def test_i14_a_step_calls_no_clock_no_io_and_no_random_generator() -> None:
    steps = list(folds())
    assert calls_outside(lambda: [time.time(), Random().random()])
    found = calls_outside(lambda: [step(*arguments) for arguments in steps])
    assert not found


def _one_step_for_all(patch: Patch) -> None:
    patch.setattr(Evaluator, "step", lambda _, *arguments: step(*arguments))


@needs(_one_step_for_all)
def test_i14_the_engine_the_rehearsal_and_the_oracle_of_the_tests_call_the_same_step() -> None:
    assert Evaluator.step is rehearsal.step is follower.step is step
