"""What must have happened, computed from the log: matches, a legal merge, and `step` folded over it.

Of the engine's work it takes only the order in which matches of several source partitions stand in the
trigger topic, and checks that this order is a legal one. Ticks are not in any topic. A legal one promises
that no match stamped before it is still to come, and under that promise firings do not depend on when a tick
came (docs/conditions.md W2). So the model ticks as late as it can, with what the later matches allow.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from interlock.conditions import (
    EMPTY,
    Firing,
    Match,
    Matcher,
    State,
    Tick,
    firing_id,
    next_wakeup,
    opened,
    step,
)
from interlock.events.errors import EventError
from interlock.events.event import Event

from .log import Life, Log, Met, Rec, Registrations, read_event, read_match, read_registrations

Origin = tuple[str, int, int]
TICK_AFTER = 64  # matches of one key: well below the 1,000 that may wait (W4)


@dataclass
class Differences:
    """What is wrong, in sentences with topic[partition]@offset."""

    missing: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    leaked_keys: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        return {name: len(found) for name, found in vars(self).items()}

    def __bool__(self) -> bool:
        return any(vars(self).values())


@dataclass(frozen=True)
class Expected:
    """A firing that the model took. at: the trigger record that brought it, None for a tick.

    after: a tick that brings it comes after this place in the partition's matches at the earliest.
    """

    id: str
    key: str
    firing: Firing
    at: int | None
    after: int


@dataclass
class Fold:
    """One key of one life: its matches in the merge, the state after them, and what fired."""

    matches: list[tuple[int, Match]] = field(default_factory=list)  # offset in the trigger partition
    state: State = EMPTY
    fired: list[Expected] = field(default_factory=list)
    partition: int | None = None  # of the trigger topic


class Model:
    """The whole answer for a log; `differences` gathers what the merge did wrong."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.differences = Differences()
        self.registrations: Registrations = read_registrations(log)
        self.lives = list(self.registrations.lives.values())
        self.life_at = {life.r: life for life in self.lives}
        self.poison: list[Rec] = []
        self.events = 0
        self._events: dict[Origin, tuple[Rec, Event]] = {}
        self.expected: dict[int, dict[tuple[str, int], dict[tuple[int, str], tuple[int, ...]]]] = {}
        self.folds: dict[tuple[int, str], Fold] = {}  # by the life's r, and key
        self.differences.unexpected += [f"registration left out: {bad}" for bad in self.registrations.bad]
        self._match()
        self._merge()
        self._fold()

    # -- matches of the event log

    def sources(self) -> Iterator[tuple[bool, list[Rec]]]:
        for records in self.log.kind("event"):
            yield False, records
        for topic in self.registrations.topics:
            for records in self.log.of(topic):
                yield True, records

    def _match(self) -> None:
        # equal matchers are asked once; who waits for a key of one lies under that key
        by_type: dict[str | None, dict[Matcher, dict[str | None, list[tuple[Life, int]]]]] = defaultdict(dict)
        for life in self.lives:
            self.expected[life.r] = defaultdict(dict)
            for number, matcher in enumerate(life.condition.matchers):
                asked = by_type[dict(matcher.exact).get("type")].setdefault(matcher, {})
                own = life.key if matcher.by is not None else None
                asked.setdefault(own, []).append((life, number))
        for listed, records in self.sources():
            for record in records:
                self.events += 1
                try:
                    event = read_event(record, listed)
                except EventError:
                    self.poison.append(record)
                    continue
                self._events[record.topic, record.partition, record.offset] = (record, event)
                hits: dict[tuple[int, str], list[int]] = {}
                for group in (by_type.get(event.type, {}), by_type.get(None, {})):
                    for matcher, waits in group.items():
                        if not matcher.accepts(event):
                            continue
                        key = None if matcher.by is None else matcher.key_of(event)
                        if matcher.by is not None and key is None:  # K20
                            continue
                        together = waits.get(None, []) + (waits.get(key, []) if key is not None else [])
                        for life, number in together:
                            if record.timestamp_ms >= life.since_ms:
                                own = life.key if life.key is not None else (key or "")
                                hits.setdefault((life.r, own), []).append(number)
                for (r, own), numbers in hits.items():
                    source = self.expected[r][record.topic, record.partition]
                    source[record.offset, own] = tuple(sorted(numbers))

    # -- the merge, and whether it is legal

    def _merge(self) -> None:
        by_place = self.registrations.lives
        seen: dict[int, dict[tuple[str, int], dict[tuple[int, str], Rec]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        last: dict[tuple[int, int, str, int], tuple[int, Rec]] = {}
        wrong = self.differences
        for record in (r for rs in self.log.kind("trigger") for r in rs):
            met = read_match(record)
            source = (met.topic, met.partition)
            known = self._events.get((*source, met.offset))
            if known is None:
                wrong.unexpected.append(f"{record}: a match of {met.origin}, where no event is")
                continue
            self._compare_event(met, *known)
            for target in met.targets:
                life = by_place.get((target.r, target.incarnation))
                if life is None:
                    wrong.unexpected.append(
                        f"{record}: a match of {met.origin} for {target.incarnation[:8]} @{target.r}, "
                        "which the registry does not have"
                    )
                    continue
                at = (met.offset, target.key)
                numbers = self.expected[life.r][source].get(at)
                if numbers is None or numbers != tuple(sorted(target.matchers)):
                    wrong.unexpected.append(
                        f"{record}: a match of {met.origin} (stamp {met.timestamp_ms}) with key "
                        f"{target.key!r} and matchers {target.matchers} for {life} since {life.since_ms}: "
                        f"it meets {numbers or 'none'}"
                    )
                    continue
                earlier = seen[life.r][source].get(at)
                if earlier is not None:
                    wrong.duplicated.append(
                        f"{record}: match of {met.origin}, key {target.key!r}, is at {earlier} too: {life}"
                    )
                    continue
                place = (life.r, record.partition, *source)
                if place in last and last[place][0] > met.offset:
                    wrong.unexpected.append(
                        f"{record}: the match of {met.origin} for {life} stands behind that of offset "
                        f"{last[place][0]} at {last[place][1]}"
                    )
                else:
                    last[place] = (met.offset, record)
                seen[life.r][source][at] = record
                fold = self.folds.setdefault((life.r, target.key), Fold())
                if fold.partition not in (None, record.partition):
                    wrong.unexpected.append(
                        f"{record}: key {target.key!r} of {life} is on partition {fold.partition} too"
                    )
                    continue
                fold.partition = record.partition
                event = known[1]
                match = Match(event, numbers, met.topic, met.partition, met.offset, met.timestamp_ms)
                fold.matches.append((record.offset, match))
        for life in self.lives:
            for source, wanted in self.expected[life.r].items():
                self._missing_matches(life, source, wanted, seen[life.r][source])

    def _compare_event(self, met: Met, record: Rec, event: Event) -> None:
        if met.timestamp_ms != record.timestamp_ms or met.event.identity != event.identity:
            self.differences.unexpected.append(
                f"{met.record}: it says {met.event.identity} stamped {met.timestamp_ms}, and {record} holds "
                f"{event.identity} stamped {record.timestamp_ms}"
            )

    def _missing_matches(
        self,
        life: Life,
        source: tuple[str, int],
        wanted: dict[tuple[int, str], tuple[int, ...]],
        seen: dict[tuple[int, str], Rec],
    ) -> None:
        """Of a life that ended the first ones must be there: nobody says up to where."""
        until = max((offset for offset, _ in seen), default=-1)
        for offset, key in wanted:
            if (offset, key) not in seen and (life.ended is None or offset < until):
                self.differences.missing.append(
                    f"{source[0]}[{source[1]}]@{offset}: no match with key {key!r} for {life}"
                    + ("" if life.ended is None else f", which ended at registry offset {life.ended}")
                )

    # -- the fold

    def _fold(self) -> None:
        for life in self.lives:
            if life.key is not None or not life.condition.keyed:
                self.folds.setdefault((life.r, life.key or ""), Fold())
        for (r, key), fold in self.folds.items():
            life = self.life_at[r]
            condition = life.condition
            if life.key is not None or not condition.keyed:
                fold.state = opened(condition, life.opened_ms, life.since_ms)
            still: list[int] = []  # the least stamp of the matches after each
            least = 2**62
            for _, match in reversed(fold.matches):
                still.append(least)
                least = min(least, match.timestamp_ms)
            still.reverse()
            timed = condition.needs_ticks
            for number, (offset, match) in enumerate(fold.matches):
                fold.state, firings = step(condition, fold.state, match)
                self._fired(life, key, fold, firings, offset)
                if timed and number % TICK_AFTER == TICK_AFTER - 1 and number + 1 < len(fold.matches):
                    self._tick(life, key, fold, still[number])

    def _tick(self, life: Life, key: str, fold: Fold, time_ms: int) -> None:
        fold.state, firings = step(life.condition, fold.state, Tick(time_ms))
        self._fired(life, key, fold, firings, None)

    def _fired(
        self, life: Life, key: str, fold: Fold, firings: tuple[Firing, ...], offset: int | None
    ) -> None:
        for firing in firings:
            made = firing_id(life.incarnation, key, firing.outcome, firing.taking_part, firing.timer_ms)
            if firing.timer_ms is not None:
                bound = firing.timer_ms - 1
            else:
                bound = max((part.match.timestamp_ms for part in firing.taking_part), default=0)
            after = -1
            if offset is None and life.kind == "one-shot":
                after = max((at for at, m in fold.matches if m.timestamp_ms <= bound), default=-1)
            fold.fired.append(Expected(made, key, firing, offset, after))

    def advance(self, now_ms: int) -> int | None:
        """Let time pass up to now, when no event is to come any more; the next due time, if there is one."""
        following: list[int] = []
        for (r, key), fold in self.folds.items():
            life = self.life_at[r]
            if not life.condition.needs_ticks:
                continue
            if (next_wakeup(life.condition, fold.state) or 2**62) <= now_ms:
                self._tick(life, key, fold, now_ms)
            if life.ended is None and not (life.kind == "one-shot" and fold.fired):
                wakeup = next_wakeup(life.condition, fold.state)
                if wakeup is not None:
                    following.append(wakeup)
        return min(following, default=None)

    def of_life(self) -> dict[int, list[tuple[str, Fold]]]:
        """The folds of each life, by its r."""
        found: dict[int, list[tuple[str, Fold]]] = defaultdict(list)
        for (r, key), fold in self.folds.items():
            found[r].append((key, fold))
        return found

    def node_kinds(self, life: Life) -> Counter[str]:
        """How often each kind of node stands in a life's condition."""
        kinds: Counter[str] = Counter()
        left = [life.condition]
        while left:
            node = left.pop()
            kinds[type(node).__name__] += 1
            left += node.operands
        return kinds
