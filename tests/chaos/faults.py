"""A schedule of faults from a seed, and the pool that carries it out on engines and broker."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewPartitions

from .cluster import Cluster
from .processes import STEPS, EngineProcess
from .proxy import API_KEYS, COORDINATOR, GROUP, LOADING, NOT_COORDINATOR, REFUSABLE, Kind, Rule

# More than the engine's session timeout of 6 s plus transaction timeout of 15 s.
ZOMBIE_S = 28.0
HOLD_S = 13.0  # longer than the producer's request timeout of 10 s
JOINED_S = 15.0
DIES_WITHIN_S = 60.0  # a rebalance may wait for a killed member's session timeout
SKEWS_S = (86_400.0, -86_400.0, 3.0e6)
# How often each occurs in 600 s.
QUOTAS = {
    "kill": 4,
    "zombie": 3,
    "join": 3,
    "leave": 3,
    "broker restart TERM": 3,
    "broker restart KILL": 3,
    "black-hole": 4,
    "delay": 4,
    "drop replies": 4,
    "cut": 4,
    "late EndTxn": 3,
    "coordinator delay": 4,
    "coordinator loading": 3,
    "partition added": 3,
    "clock skew": 3,
}
KILLS_PER_STEP = 5
BURST_EVERY_S, BURST_SHARE = 45.0, 0.55
APART_S = 8.0  # before a rule without effect is tried again: starting engines must be able to join the group
WORKED_S = 3.0  # an engine that has owned partitions for this long has done some work
AT_WORK = 0.7  # share of kills that hit working engines only; the others may also hit one that takes over
LONG_S = 120.0  # a run from then on must have had each kind of fault
MOST_LATE = 3  # how many kills may wait for the next burst
NEED_A_LONG_RUN = frozenset(
    {
        "clock skew",
        "coordinator delay",
        "coordinator loading",
        "drop replies",
        "broker restart TERM",
        "zombie",
    }
)


@dataclass(frozen=True)
class Planned:
    """A fault at a time after the start."""

    at_s: float
    kind: str
    step: str = ""

    def __str__(self) -> str:
        return f"{self.kind} {self.step}".strip()


def schedule(seed: int, seconds: float) -> list[Planned]:
    """The faults of a run, over its first nine tenths, with pauses; the same for the same arguments."""
    r = random.Random(f"faults {seed}")
    share = seconds / 600
    wanted: list[tuple[str, str]] = []
    for step in STEPS:
        wanted += [(f"kill at {step}", step)] * max(1, round(KILLS_PER_STEP * share))
    for kind, quota in QUOTAS.items():
        if seconds >= LONG_S or kind not in NEED_A_LONG_RUN:
            wanted += [(kind, "")] * max(1, round(quota * share))
    r.shuffle(wanted)
    # a zombie must continue before the end
    zombies = [each for each in wanted if each[0] == "zombie"]
    others = [each for each in wanted if each[0] != "zombie"]
    first, last = seconds * 0.05, seconds * 0.9
    planned = [
        Planned(first + (last - first) * (n + r.random()) / len(others), *each)
        for n, each in enumerate(others)
    ]
    room = max(1.0, last - ZOMBIE_S - first)
    planned += [
        Planned(first + room * (n + r.random()) / len(zombies), *each) for n, each in enumerate(zombies)
    ]
    return sorted((replace(each, at_s=_with_pauses(each.at_s)) for each in planned), key=lambda x: x.at_s)


def rests(at_s: float) -> bool:
    """Whether this time is between two bursts."""
    return at_s % BURST_EVERY_S > BURST_EVERY_S * BURST_SHARE


def _with_pauses(at_s: float) -> float:
    """Moves a time into a burst: between bursts engines make progress, also on a slow machine."""
    number, into_s = divmod(at_s, BURST_EVERY_S)
    return (number + into_s / BURST_EVERY_S * BURST_SHARE) * BURST_EVERY_S


@dataclass
class Done:
    """The faults that happened. fault_times: times in ms since the epoch at which faults began and ended."""

    kills: int = 0
    kills_by_step: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(STEPS, 0)))
    by_kind: Counter[str] = field(default_factory=Counter)
    engines: int = 0
    ended_by_themselves: int = 0
    fault_times: list[int] = field(default_factory=list)

    def note_time(self, in_s: float = 0.0) -> None:
        """Records that a fault begins or ends in `in_s` seconds."""
        self.fault_times.append(int((time.time() + in_s) * 1000))


@dataclass(eq=False)
class _Rule:
    """A rule of the proxy that has not had an effect yet."""

    kind: str
    rule: Rule
    everybody: bool

    @property
    def counts(self) -> bool:
        """Whether it has had an effect; for a rule for all requests, on the victim's membership."""
        rule = self.rule
        return bool(rule.hits if rule.apis is not None else rule.touched & GROUP)


class Pool:
    """The engines of the run: keeps their number constant, and carries out the schedule."""

    def __init__(
        self,
        cluster: Cluster,
        bus: dict[str, Any],
        folder: Path,
        replicas: int,
        seed: int,
        say: Callable[[str], None],
        plant: str | None = None,
    ) -> None:
        self.done = Done()
        self._cluster, self._bus, self._folder, self._say = cluster, bus, folder, say
        self._random = random.Random(f"pool {seed}")
        self._replicas, self._plant = replicas, plant
        self._engines: list[EngineProcess] = []
        self._later: list[tuple[float, Callable[[], None]]] = []
        self.beside: list[Callable[[], None]] = []  # what else must be tended
        self.resting = False  # between bursts: only few late kills are repeated
        self.repeats_rules = True  # whether a rule of the proxy without effect is tried again
        self._over = False
        self._ordered: dict[EngineProcess, float] = {}
        self._again: list[tuple[str, bool]] = []  # kills without effect, to try again
        self._rules: list[_Rule] = []
        self._admin = AdminClient({"bootstrap.servers": cluster.direct})
        self._skew_s = 0.0
        self._early = False  # whether the last killed engine had done no work
        self._restarting: threading.Thread | None = None

    # -- the engines

    def start(self) -> None:
        for _ in range(self._replicas):
            self._new()

    def stop(self) -> None:
        for each in self._engines:
            each.process.terminate() if not each.stopped else each.kill()
        for each in self._engines:
            each.terminate()

    def _new(self) -> EngineProcess:
        self.done.engines += 1
        self.done.note_time()
        name = f"engine-{self.done.engines}"
        # The name is in the ids of all its clients, by which the proxy's rules find them; the consumer has
        # the transactional id, which includes the deployment.
        bus = dict(self._bus, deployment=name, client={**self._bus["client"], "client.id": name})
        made = EngineProcess.start(name, bus, self._folder, self._skew_s, self._plant)
        self.done.by_kind["clock skew"] += bool(self._skew_s)
        self._skew_s = 0.0
        self._engines.append(made)
        return made

    def _some(self, *, at_work: bool = False) -> EngineProcess | None:
        """A running engine that is not to die yet, preferably one that has worked for a while.

        at_work: only such an engine; otherwise a single engine would always die before it had done any work.
        """
        now = time.monotonic()
        free = [e for e in self._engines if e.alive and not e.stopped and e.ordered_step is None]
        working = [e for e in free if e.owning is not None and now - e.owning > WORKED_S]
        chosen = working if at_work else working or free
        return self._random.choice(chosen) if chosen else None

    def tend(self) -> None:
        """Tends the engines: counts dead ones, starts others, carries out due actions."""
        now = time.monotonic()
        for tend in self.beside:
            tend()
        for each in self._engines:
            each.look()
        for each in [e for e in self._engines if not e.alive]:
            self._engines.remove(each)
            self._ordered.pop(each, None)
            self.done.note_time()
            each.close()
            if each.process.returncode == -9:
                self.done.kills += 1
                if each.ordered_step is not None:
                    self.done.kills_by_step[each.ordered_step] += 1
                    self._early = each.owning is None or now - each.owning <= WORKED_S
            else:
                self.done.ended_by_themselves += 1
                self._say(f"{each.name} ended by itself: {each.process.returncode}, see {each.log}")
                if each.ordered_step is not None:
                    self._again.append((each.ordered_step, each.at_work))
        for each, since in list(self._ordered.items()):
            if now - since > DIES_WITHIN_S:
                del self._ordered[each]
                self._again.append((str(each.ordered_step), each.at_work))
                each.die_at(None)
        for due, work in [x for x in self._later if x[0] <= now]:
            self._later.remove((due, work))
            work()
        while len(self._engines) < self._replicas:
            self._new()
        if self._again and (not self.resting or len(self._again) > MOST_LATE):
            self._kill_at(*self._again.pop(0))
        for given in list(self._rules):
            if given.counts:
                self._rules.remove(given)
                self.done.by_kind[given.kind] += 1
            elif now > given.rule.until:  # it had no effect: try it on another engine
                self._rules.remove(given)
                if self.repeats_rules:
                    self._in(APART_S, lambda given=given: self._try_again(given))

    def _take_away(self, engine: EngineProcess) -> None:
        """Sends SIGKILL; counts as a kill, but for no step."""
        if engine in self._engines:
            self._engines.remove(engine)
        self._ordered.pop(engine, None)
        engine.kill()
        self.done.note_time()
        self.done.kills += 1

    def _in(self, seconds: float, work: Callable[[], None]) -> None:
        self._later.append((time.monotonic() + seconds, work))

    @property
    def busy(self) -> bool:
        """Whether an action is still in progress."""
        restarting = self._restarting is not None and self._restarting.is_alive()
        return bool(self._later or self._ordered or self._again or self._rules or restarting)

    def short_of(self, steps: int) -> list[str]:
        """The steps at which fewer engines than that have died."""
        return [step for step in STEPS if self.done.kills_by_step[step] < steps]

    # -- the faults

    def do(self, planned: Planned) -> None:
        """Carries out a fault; `tend` continues those that take time."""
        if planned.step:
            self._kill_at(planned.step, self._random.random() < AT_WORK)
            return
        doers: dict[str, Callable[[], None]] = {
            "kill": self._sigkill,
            "zombie": self._zombie,
            "join": self._join,
            "leave": self._leave,
            "broker restart TERM": lambda: self._restart(planned.kind, kill=False),
            "broker restart KILL": lambda: self._restart(planned.kind, kill=True),
            "black-hole": lambda: self._rule(planned.kind, self._lasting("black-hole", 4, 22)),
            "delay": lambda: self._rule(planned.kind, self._lasting("delay", 3, 8, delay_s=0.3)),
            "drop replies": self._drop_replies,
            "cut": lambda: self._rule(planned.kind, self._lasting("cut", 2, 4, once=True)),
            "late EndTxn": self._late_end,
            "coordinator delay": self._coordinator,
            "coordinator loading": self._loading,
            "partition added": self._add_partition,
            "clock skew": self._skew,
        }
        doers[planned.kind]()

    def rest(self) -> None:
        """Stops kills and repetitions; other actions in progress continue."""
        self._over = True
        self._again.clear()
        for each in self._ordered:
            each.die_at(None)
        self._ordered.clear()

    def _kill_at(self, step: str, at_work: bool) -> None:
        if self._over:
            return
        # at least one is not to die: otherwise a slow machine's engines die before they have done any work
        may_die = len(self._ordered) < max(1, self._replicas - 1)
        # no single engine is killed early twice in a row: all waiting kills would hit it before it has worked
        victim = self._some(at_work=at_work or self._early) if may_die else None
        if victim is None:
            self._in(1.0, lambda: self._again.append((step, at_work)))
            return
        victim.die_at(step)
        victim.at_work = at_work or self._early
        self._ordered[victim] = time.monotonic()

    def _sigkill(self) -> None:
        if self._over:
            return
        victim = self._some()
        if victim is not None:
            self._take_away(victim)
            self.done.by_kind["kill"] += 1
        else:
            self._in(1.0, self._sigkill)

    def _zombie(self) -> None:
        """Stops an engine until others have its partitions and its transaction has timed out, then continues
        it."""
        victim = self._some()
        if victim is None:
            self._in(1.0, self._zombie)
            return
        victim.pause()
        self.done.note_time()
        self._replicas += 1

        def wake() -> None:
            self.done.by_kind["zombie"] += victim.alive
            victim.resume()
            self.done.note_time()
            self._in(JOINED_S, self._one_less)

        self._in(ZOMBIE_S, wake)

    def scale(self, by: int) -> None:
        """Changes the number of engines; surplus ones leave cleanly."""
        self._replicas += max(0, by)
        for _ in range(-by):
            self._one_less()

    def _one_less(self) -> None:
        """Reduces the number of engines by one, which leaves cleanly."""
        self._replicas -= 1
        victim = self._some()
        if victim is not None and len(self._engines) > self._replicas:
            self.done.note_time()
            self._engines.remove(victim)
            threading.Thread(target=victim.terminate, daemon=True).start()

    def _join(self) -> None:
        self._replicas += 1
        self.done.by_kind["join"] += 1
        self._in(JOINED_S, self._one_less)

    def _leave(self) -> None:
        victim = self._some()
        if victim is None:
            self._in(1.0, self._leave)
            return
        self._engines.remove(victim)
        self.done.note_time()
        threading.Thread(target=victim.terminate, daemon=True).start()
        self.done.by_kind["leave"] += 1

    def _restart(self, kind: str, *, kill: bool) -> None:
        if self._restarting is not None and self._restarting.is_alive():
            self._in(1.0, lambda: self._restart(kind, kill=kill))
            return

        def restart() -> None:
            self.done.note_time()
            self._cluster.restart(kill=kill)
            self.done.note_time()

        self._restarting = threading.Thread(target=restart, daemon=True)
        self._restarting.start()
        self.done.by_kind[kind] += 1

    def _lasting(self, kind: Kind, least_s: float, most_s: float, **more: Any) -> Rule:
        lasts_s = self._random.uniform(least_s, most_s)
        return Rule(kind, time.monotonic() + lasts_s, lasts_s=lasts_s, **more)

    def _rule(self, kind: str, rule: Rule, everybody: bool = False, *, at_work: bool = False) -> None:
        """Applies a rule to one engine, or sometimes to all."""
        if self._over and at_work:
            return
        victim = self._some(at_work=at_work)
        if victim is None:
            rule.until += 1.0
            self._in(1.0, lambda: self._rule(kind, rule, everybody, at_work=at_work))
            return
        rule.client = None if everybody or self._random.random() < 0.2 else victim.name
        self.done.note_time()
        self.done.note_time(rule.lasts_s + rule.delay_s)
        self._cluster.proxy.add(rule)
        self._rules.append(_Rule(kind, rule, everybody))

    def _try_again(self, given: _Rule) -> None:
        if self._over:
            return
        self._say(f"{given.kind} had no effect, and is tried again")
        until = time.monotonic() + given.rule.lasts_s
        again = replace(given.rule, until=until, hits=0, met=set())
        # At work: repeated rules could keep a single engine from ever starting.
        self._rule(given.kind, again, given.everybody, at_work=True)

    def _drop_replies(self) -> None:
        names = self._random.sample(
            ["Produce", "AddOffsetsToTxn", "EndTxn", "TxnOffsetCommit", "Heartbeat"], 2
        )
        apis = frozenset(API_KEYS[name] for name in names)
        self._rule("drop replies", self._lasting("drop-reply", 2, 6, apis=apis, most=3))

    def _late_end(self) -> None:
        """The broker receives EndTxn after others have continued, or after its sender has sent it again.

        A client that keeps its connection abandons the commit.
        """
        apis = frozenset({API_KEYS["EndTxn"]})
        more: dict[str, Any] = {"apis": apis, "delay_s": HOLD_S, "most": 2}
        if self._random.random() < 0.5:
            more |= {"reset": True, "delay_s": self._random.uniform(0.01, 1.0)}
        self._rule("late EndTxn", self._lasting("late", 5, 10, **more))

    def _coordinator(self) -> None:
        apis = COORDINATOR if self._random.random() < 0.5 else frozenset({22, 24, 25, 26, 28})
        self._rule("coordinator delay", self._lasting("delay", 4, 10, apis=apis, delay_s=1.0), everybody=True)

    def _loading(self) -> None:
        """The coordinator's errors while it loads its log or has moved; the client repeats its requests."""
        code = self._random.choice((LOADING, NOT_COORDINATOR))
        rule = self._lasting("refuse", 2, 6, apis=frozenset(REFUSABLE), code=code, most=6)
        self._rule("coordinator loading", rule, everybody=True)

    def _add_partition(self) -> None:
        topic = f"{self._bus['name']}-event"
        try:
            now = len(self._admin.list_topics(topic, timeout=5).topics[topic].partitions)
            futures = self._admin.create_partitions([NewPartitions(topic, now + 1)])
            futures[topic].result(10)
        except KafkaException as e:
            self._say(f"could not add a partition, trying again: {e}")
            self._in(2.0, self._add_partition)
            return
        self.done.note_time()
        self.done.by_kind["partition added"] += 1

    def _skew(self) -> None:
        """Ends an engine; the next one that starts has another clock."""
        victim = self._some()
        if victim is None:
            self._in(1.0, self._skew)
            return
        self._skew_s = self._random.choice(SKEWS_S)
        self._take_away(victim)
