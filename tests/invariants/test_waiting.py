"""I6, I8, I11 and I12 as a waiting task sees them: a triggerer's runtime (docs/understand/design.md)."""

from __future__ import annotations

import asyncio
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any, Final

from interlock import Event, event
from interlock.conditions import Match, Part
from interlock.engine.bus import Output, Record
from interlock.engine.config import BusConfig
from interlock.engine.errors import EngineError, TopicsError, UnreachableError
from interlock.engine.protocol.loop import Engine
from interlock.engine.protocol.tasks.evaluator import Evaluator
from interlock.engine.records import BUS_KEY, Registration
from interlock.engine.runtime import loop_thread, runtime
from interlock.engine.runtime.loop_thread import LoopRun, LoopThread
from interlock.engine.runtime.runtime import Runtime, run_engine
from interlock.engine.runtime.watchdog import START_S, Watchdog
from interlock.engine.waiting import waits
from interlock.engine.waiting.acknowledge import acknowledge
from interlock.engine.waiting.notices import Notice, NoticeBoard
from interlock.engine.waiting.waits import FiringForWait, Waits
from interlock.triggers import event as trigger_module
from interlock.triggers import payload as payload_module
from interlock.triggers.event import EventTrigger
from interlock.triggers.payload import Payload

from tests.invariants.durable import durable, ids_fired
from tests.invariants.host import (
    DEADLINE_S,
    Brokers,
    Process,
    a_trigger,
    first_of,
    process,
    run_in_loop,
    until,
)
from tests.invariants.needs import NeverRaised, Patch, Without, needs, unharmed, without
from tests.kit.made_of import MadeOf
from tests.kit.pool import CONFIG, REGISTRY, Pool
from tests.simulation import faults

X: Final = event("x")
PAIR: Final = event("x") & event("y")


# -- I6


class EvaluatorWithOffsetsInIds(Evaluator):
    @staticmethod
    def firing_id(incarnation: str, key: str, outcome: str, parts: Any, timer_ms: int | None = None) -> str:
        parts = list(parts)
        return Evaluator.firing_id(incarnation, key, f"{outcome}{parts[0].match.offset}", parts, timer_ms)


class EvaluatorWithRandomIds(Evaluator):
    @staticmethod
    def firing_id(*_: Any) -> str:
        return uuid.uuid4().hex


IDS_BY_DECISION: Final = without("ids by the decision alone", evaluator=EvaluatorWithOffsetsInIds)
IDS_NOT_RANDOM: Final = without("ids that are not random", evaluator=EvaluatorWithRandomIds)


@needs(IDS_BY_DECISION, IDS_NOT_RANDOM)
def test_i6_the_same_decision_has_the_same_id_wherever_its_events_are_and_whoever_decides(
    made_of: MadeOf,
) -> None:
    found = set()
    for kinds in ("xy", "yx"):
        pool = Pool(durable("d", PAIR), events=2, made_of=made_of)
        pool.boot()
        pool.emit("z")
        for place, kind in enumerate(kinds):
            pool.emit(kind, event_id=kind, partition=place)
            pool.run()
            pool.kill(next(iter(pool.engines)))
            pool.boot(f"after {kind}")
        pool.run()
        [action] = pool.actions()
        found.add(action["firing"]["id"])
    assert len(found) == 1


def _id_without(number: int, name: str) -> Without:
    class EvaluatorWithShortIds(Evaluator):
        @staticmethod
        def firing_id(*given: Any) -> str:
            left = list(given)
            left[number] = None if number == 4 else [] if number == 3 else ""
            return Evaluator.firing_id(*left)

    return without(f"the {name} in the id", evaluator=EvaluatorWithShortIds)


PARTS_OF_AN_ID: Final = ("incarnation", "key", "outcome", "events", "time")


@needs(*[_id_without(number, name) for number, name in enumerate(PARTS_OF_AN_ID)])
def test_i6_another_incarnation_key_outcome_event_or_time_is_another_firing(made_of: MadeOf) -> None:
    def part_of(event_id: str) -> Part:
        return Part("x", Match(Event.of("x", "/s", id=event_id), (0,), "t", 0, 0, 0))

    evaluator: Any = made_of.parts.evaluator
    found = {
        evaluator.firing_id(incarnation, key, outcome, [part_of(each) for each in ids], timer_ms)
        for incarnation in ("i", "j")
        for key in ("", "k")
        for outcome in ("met", "expired")
        for ids in (["1"], ["2"], ["1", "2"])
        for timer_ms in (None, 7)
    }
    assert len(found) == 48


class WaitsForNewFirings(Waits):
    """Ignore firings that were written before they connected."""

    reading = True

    def run(
        self,
        stop: threading.Event,
        config: BusConfig | None = None,
        on_healthy: Callable[[], None] = lambda: None,
    ) -> None:
        def read() -> None:
            self.reading = False
            on_healthy()

        self.reading = True
        super().run(stop, config, read)

    def follow_firing(self, record: Record) -> None:
        if not self.reading:
            super().follow_firing(record)


EARLIER_FIRINGS: Final = Without("reading earlier firings", MadeOf(waits=WaitsForNewFirings))
ONE_SHOTS_CLOSE: Final = Without("closing a one shot", faults.ONE_SHOT_STAYS_OPEN)


@needs(EARLIER_FIRINGS, ONE_SHOTS_CLOSE)
def test_i6_a_firing_outlives_its_triggerer_is_delivered_until_acknowledged_and_stays_the_same(
    made_of: MadeOf,
) -> None:
    brokers = Brokers(made_of=made_of)
    pool = brokers.pool
    ids = []

    async def delivers_and_dies() -> None:
        run = a_trigger(X).run()
        given = asyncio.ensure_future(anext(run))  # type: ignore[arg-type]
        await until("it is registered", lambda: len(registered(pool)) == 1, given)
        with brokers.lock:
            pool.emit("x", event_id="1")
        ids.append(Payload.from_json((await given).payload).action_record().firing.id)
        await run.aclose()  # type: ignore[attr-defined]  # the task is never resumed

    with process(brokers):
        run_in_loop(delivers_and_dies())
    with brokers.lock:
        for n in (2, 3):
            pool.emit("x", event_id=f"{n}")
    pool.start("elsewhere")
    pool.engines.pop("elsewhere").close()
    assert len({action["firing"]["id"] for action in pool.actions()}) == 1, "it fired again"
    with process(brokers):
        payload = Payload.from_json(run_in_loop(first_of(a_trigger(X, timed_out=True))))
        assert payload.outcome == "fired", "the earlier firing was not delivered"
        action = payload.action_record()
        ids.append(action.firing.id)
        acknowledge(brokers.config, action, payload.registration_keys)
        assert pool.actions()[-1]["state"] == "acked"
        assert pool.records(REGISTRY)[-1] == (payload.registration_keys[-1].encode(), None)
    with process(brokers):  # the task failed after that, and is tried again
        payload = Payload.from_json(run_in_loop(first_of(a_trigger(X, timed_out=True))))
        assert payload.outcome == "fired"
        ids.append(payload.action_record().firing.id)
    assert len(ids) == 3
    assert len(set(ids)) == 1


def registered(pool: Pool) -> list[bytes]:
    """The record keys of the registrations in force."""
    last = dict(pool.records(REGISTRY))
    return [key for key, value in last.items() if key and value and b"/" not in key and key != BUS_KEY]


# -- I8


class _Passes(threading.Event):
    """Set after `most` checks."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._left = most

    def is_set(self) -> bool:
        self._left -= 1
        return self._left < 0


def _catching_what_a_waiter_raises(patch: Patch) -> None:
    patch.setattr(waits, "Exception", NeverRaised, raising=False)


@needs(_catching_what_a_waiter_raises)
def test_i8_a_waiter_that_cannot_be_notified_keeps_nobody_else_waiting() -> None:
    brokers = Brokers()
    pool = brokers.pool
    registrations = [Registration.of(name, X, None, 0) for name in ("gone", "well")]
    for each in registrations:
        pool.register(each)
    pool.emit("x")
    pool.start()
    notified: list[str] = []

    def gone(item: FiringForWait | Notice) -> None:
        notified.append("gone")
        raise RuntimeError("Event loop is closed")

    with process(brokers):
        following = Waits(brokers.config, NoticeBoard())
        following.open(registrations[0], gone)
        following.open(registrations[1], lambda item: notified.append("well"))
        with unharmed("the waits"):
            following.run(_Passes(10))
    assert notified == ["gone", "well"]


# -- I11


class ThreadThatOnlyLogs(LoopThread):
    def failed(self, run: LoopRun, error: BaseException | None) -> None:
        loop_thread.log.error("%s", error)


class ThreadThatRunsOnce(LoopThread):
    def failed(self, run: LoopRun, error: BaseException | None) -> None:
        super().failed(run, error)
        self.stop()


class EngineThatOnlyLogs(Engine):
    """Logs errors, and continues with what it has in memory."""

    def run_pass(self) -> int:
        try:
            return super().run_pass()
        except Exception as e:
            loop_thread.log.error("%s", e)
            return 0


NOTIFIES_TASKS: Final = Without("notifying the waiting tasks", MadeOf(loop_thread=ThreadThatOnlyLogs))
RUNS_AGAIN: Final = Without("starting again", MadeOf(loop_thread=ThreadThatRunsOnce))
NEW_ENGINE: Final = Without("a new engine after an error", MadeOf(engine=EngineThatOnlyLogs))


@needs(NOTIFIES_TASKS, RUNS_AGAIN, NEW_ENGINE)
def test_i11_waiting_tasks_see_every_error_and_the_engine_continues_and_loses_nothing(
    made_of: MadeOf,
) -> None:
    brokers = Brokers(made_of=made_of)
    pool = brokers.pool
    pool.register(durable("d", PAIR))
    pool.emit("x", event_id="1")
    pool.emit("y", event_id="2")
    received: list[Notice] = []
    board = NoticeBoard()
    board.listen("a waiting task", received.append)
    errors: list[Exception] = [
        TopicsError("Topic 'b-state' is missing."),
        UnreachableError("SASL authentication failed."),
        RuntimeError("a mistake"),
        EngineError("5 aborts in a row."),
    ]
    brokers.failures = list(errors)
    polls = 0
    unanswered = UnreachableError("The commit had no answer.")

    def lose_the_answer(outputs: Sequence[Output]) -> None:
        """Loses the response to the first commit that writes a match."""
        if outputs and unanswered not in errors and not brokers.failures:
            errors.append(unanswered)
            raise unanswered

    def look() -> None:
        nonlocal polls
        polls += 1
        is_over = unanswered in errors and ids_fired(pool, "d") and received and received[-1] == Notice(None)
        if is_over or polls > 300:
            running.stop()

    def loop(run: loop_thread.LoopRun) -> None:
        run_engine(run.config, run, run.report_healthy, post=run.post, process=Process(brokers))

    brokers.on_poll = look
    brokers.on_committed = lose_the_answer
    running = made_of.loop_thread("The engine", loop, brokers.config, board)
    with process(brokers):
        running.start()
        running.join(DEADLINE_S)
        running.stop()
    texts = [notice.text or "" for notice in received]
    for error in errors:
        assert any(str(error) in text for text in texts), f"no waiting task saw {error}"
    assert unanswered in errors
    assert ids_fired(pool, "d") == [["1", "2"]]
    assert received[-1] == Notice(None), "the problem has passed"


def _a_watchdog(patch: Patch) -> None:
    patch.setattr(Watchdog, "look", lambda self: None)


def _notifying_that_it_is_replaced(patch: Patch) -> None:
    patch.setattr(NoticeBoard, "post", lambda *_: None)


@needs(_a_watchdog, _notifying_that_it_is_replaced)
def test_i11_a_loop_that_hangs_is_abandoned_reported_and_replaced() -> None:
    received: list[Notice] = []
    board = NoticeBoard()
    board.listen("a waiting task", received.append)
    hangs, continues, release = threading.Event(), threading.Event(), threading.Event()

    def loop(run: loop_thread.LoopRun) -> None:
        if not hangs.is_set():
            hangs.set()
            release.wait(DEADLINE_S)
        else:
            continues.set()
            run.wait(DEADLINE_S)

    running = loop_thread.LoopThread("The engine", loop, CONFIG, board)
    watchdog = Watchdog([running])
    running.start()
    try:
        assert hangs.wait(DEADLINE_S)
        for _ in range(int(START_S) + 2):
            watchdog.look()
        assert running.replaced == 1, "it hangs for ever"
        assert continues.wait(DEADLINE_S)
        assert "made no progress" in str(received), "no waiting task saw it"
    finally:
        release.set()
        running.stop()
        running.join(DEADLINE_S)


# -- I12


def _notices_that_fail_no_wait(patch: Patch) -> None:
    """Lets the trigger fail with the text of a notice."""

    async def fails(self: EventTrigger, *given: Any) -> Any:
        item = await next_of(self, *given)
        if isinstance(item, Notice) and item.text is not None:
            raise UnreachableError(item.text)
        return item

    next_of = EventTrigger.next_item
    patch.setattr(EventTrigger, "next_item", fails)


def _calling_kafka_in_other_threads(patch: Patch) -> None:
    """Lets the trigger check first whether the brokers are reachable."""
    of = Runtime.of.__func__  # type: ignore[attr-defined]

    def looks_first(cls: type[Runtime], config: BusConfig, *given: Any, **named: Any) -> Any:
        runtime.check(config)
        return of(cls, config, *given, **named)

    patch.setattr(Runtime, "of", classmethod(looks_first))


def _shrinking_a_firing_in_another_thread(patch: Patch) -> None:
    async def at_once(work: Any, *given: Any) -> Any:
        return work(*given)

    patch.setattr(trigger_module.asyncio, "to_thread", at_once)


@needs(_notices_that_fail_no_wait, _calling_kafka_in_other_threads)
def test_i12_unreachable_brokers_fail_no_wait_and_it_continues_when_they_are_back() -> None:
    brokers = Brokers(reachable=False)

    async def waits_through() -> dict[str, Any]:
        trigger = a_trigger(X)
        given = asyncio.ensure_future(first_of(trigger))
        lines: list[str] = trigger.log.lines  # type: ignore[attr-defined]
        await until("the task sees a notice", lambda: lines, given)
        await until("the brokers are tried again", lambda: brokers.refused > 10, given)
        assert "Cannot reach bus 'b'" in lines[0]
        with brokers.lock:
            brokers.reachable = True
            brokers.pool.emit("x")
        return await given

    with process(brokers):
        payload = run_in_loop(waits_through())
    assert payload["outcome"] == "fired"


@needs(_calling_kafka_in_other_threads, _shrinking_a_firing_in_another_thread)
def test_i12_in_the_thread_of_the_triggerers_loop_nothing_calls_kafka_matches_or_builds_a_firing() -> None:
    brokers = Brokers()
    in_loop = threading.get_ident()
    callers = brokers.callers

    def noted(what: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def noting(*given: Any, **named: Any) -> Any:
            callers[what].add(threading.get_ident())
            return work(*given, **named)

        return noting

    async def waits_for_many() -> list[dict[str, Any]]:
        given = [asyncio.ensure_future(first_of(a_trigger(X, name=f"d/dag/run/{n}"))) for n in range(5)]
        await until("all are registered", lambda: len(registered(brokers.pool)) == 5, *given)
        with brokers.lock:
            brokers.pool.emit("x")
        return [await each for each in given]

    with process(brokers), Patch.context() as noting:
        noting.setattr(Engine, "run_pass", noted("a pass", Engine.run_pass))
        noting.setattr(Waits, "run", noted("the waits", Waits.run))
        noting.setattr(payload_module, "fit_action", noted("the payload", payload_module.fit_action))
        found = run_in_loop(waits_for_many())
    assert [payload["outcome"] for payload in found] == ["fired"] * 5
    assert {"check", "engine", "reader", "producer", "a pass", "the waits", "the payload"} == callers.keys()
    assert not [what for what, threads in callers.items() if in_loop in threads]
