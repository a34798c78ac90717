"""The model: computes from the log what must have happened: matches, a legal merge, and `step` folded over
it.

Of the engine's results it uses only the order of matches from several source partitions in the trigger topic,
and checks that this order is legal. Ticks are in no topic. A tick is legal if no match with an earlier
timestamp comes after it. If matches arrive in another order than that of their timestamps, firings may depend
on the time of ticks (docs/use/conditions.md V3): then any legal ticks are right, and `Fold.explain` searches
for ticks that lead to the actual firings.
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

from .log import Life, Log, MatchRecord, Rec, Registrations, read_event, read_match, read_registrations

Origin = tuple[str, int, int]
MOST_TRIED = 20_000  # limit of states in the search for ticks that explain one key's firings
NEVER = 2**62
UNSEEN_MS = 10_000  # how long an engine may be unaware of a source that another one has committed


@dataclass
class Differences:
    """What is wrong, as sentences with topic[partition]@offset."""

    missing: list[str] = field(default_factory=list)
    duplicated: list[str] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    leaked_keys: list[str] = field(default_factory=list)
    late: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        return {name: len(found) for name, found in vars(self).items()}

    def __bool__(self) -> bool:
        return any(vars(self).values())


@dataclass(frozen=True)
class Expected:
    """A firing of the model. at: the trigger record that caused it, None for a tick.

    after: a tick that causes it comes later than this offset of the trigger partition.
    """

    id: str
    key: str
    firing: Firing
    at: int | None
    after: int

    @property
    def name(self) -> str:
        """The id with the positions of its events: either copy of a repeated event may take part."""
        places: dict[str, list[tuple[str, int, int]]] = {}
        for label, m in ((part.label, part.match) for part in self.firing.taking_part):
            places.setdefault(label, []).append((m.topic, m.partition, m.offset))
        return f"{self.id} {sorted(places.items())}"


@dataclass
class Fold:
    """One key of one life: its matches in order of the merge, the state after them, and its firings.

    matches: (offset in the trigger partition, time of its append there, the match).
    """

    life: Life
    key: str
    matches: list[tuple[int, int, Match]] = field(default_factory=list)
    state: State = EMPTY
    fired: list[Expected] = field(default_factory=list)
    partition: int | None = None  # of the trigger topic
    joined_ms: dict[tuple[str, int], int] = field(default_factory=dict)  # of partitions of listed topics
    _least: list[int] = field(default_factory=list)

    def run(self) -> None:
        """Folds all matches, with ticks as soon as they are due and legal."""
        condition = self.life.condition
        self.state = self._first()
        self._least = [NEVER]  # the least stamp of the matches from each on: a tick up to there is legal
        for _, _, match in reversed(self.matches):
            self._least.append(min(self._least[-1], match.timestamp_ms))
        self._least.reverse()
        for number, (offset, appended_ms, match) in enumerate(self.matches):
            if condition.needs_ticks:
                self.tick(min(self._least[number], appended_ms))
            self.state, firings = step(condition, self.state, match)
            self.fired += self._expected(firings, offset)

    def tick(self, time_ms: int) -> None:
        """Applies a tick if it has an effect."""
        if (next_wakeup(self.life.condition, self.state) or NEVER) <= time_ms:
            self.state, firings = step(self.life.condition, self.state, Tick(time_ms))
            self.fired += self._expected(firings, None)

    def without_ticks(self) -> int | None:
        """The offset of the match with which it fires if no tick comes; None: it does not."""
        state = self._first()
        for offset, _, match in self.matches:
            state, firings = step(self.life.condition, state, match)
            if firings:
                return offset
        return None

    def explain(self, actual: list[str], now_ms: int) -> bool:
        """Searches for legal ticks that lead to exactly these firings, in this order; adopts them if found.

        actual: ids or names of the firings; names identify more. An ended life may have stopped anywhere; a
        one-shot one stops at its first firing.
        """
        condition = self.life.condition
        legal = self._legal_until()
        by_name = any(" " in each for each in actual)
        stops = self.life.ended is not None or (self.life.kind == "one-shot" and bool(actual))
        tried: set[tuple[int, int, bytes]] = set()
        left: list[tuple[int, State, tuple[Expected, ...]]] = [(0, self._first(), ())]
        while left and len(tried) < MOST_TRIED:
            number, state, fired = left.pop()
            place = (number, len(fired), state.encode())
            if place in tried:
                continue
            tried.add(place)
            if stops and len(fired) >= len(actual):
                self.state, self.fired = state, list(fired)
                return True
            following: list[tuple[int, State, list[Expected]]] = []
            due = next_wakeup(condition, state) if condition.needs_ticks else None
            if number < len(self.matches):
                offset, _, match = self.matches[number]
                after, firings = step(condition, state, match)
                following.append((number + 1, after, self._expected(firings, offset)))
            elif (due or NEVER) > now_ms and len(fired) == len(actual):
                self.state, self.fired = state, list(fired)
                return True
            if due is not None and due <= min(now_ms, legal[number]):
                after, firings = step(condition, state, Tick(due))
                following.append((number, after, self._expected(firings, None)))
            for then, after, more in following:
                all_fired = (*fired, *more)
                ids = [each.name if by_name else each.id for each in all_fired]
                if self.life.kind == "one-shot":
                    ids = ids[:1]
                if ids == actual[: len(ids)]:
                    left.append((then, after, all_fired))
        return False

    def _legal_until(self) -> list[int]:
        """The latest legal tick before each match. (A topic may be listed after a tick.)"""
        legal = [NEVER]
        for _, _, match in reversed(self.matches):
            joined = self.joined_ms.get((match.topic, match.partition))
            stamp = match.timestamp_ms
            legal.append(min(legal[-1], stamp if joined is None else max(stamp, joined + UNSEEN_MS)))
        return legal[::-1]

    def _first(self) -> State:
        life = self.life
        if life.key is None and life.condition.keyed:
            return EMPTY
        return opened(life.condition, life.opened_ms, life.since_ms)

    def _expected(self, firings: tuple[Firing, ...], offset: int | None) -> list[Expected]:
        return [self._one_expected(firing, offset) for firing in firings]

    def _one_expected(self, firing: Firing, offset: int | None) -> Expected:
        parts = firing.taking_part
        made = firing_id(self.life.incarnation, self.key, firing.outcome, parts, firing.timer_ms)
        if firing.timer_ms is not None:
            bound = firing.timer_ms - 1
        else:
            bound = max((part.match.timestamp_ms for part in parts), default=0)
        after = -1
        if offset is None and self.life.kind == "one-shot":
            after = max((at for at, _, m in self.matches if m.timestamp_ms <= bound), default=-1)
        return Expected(made, self.key, firing, offset, after)


class Model:
    """The model of a log. differences: what is wrong in the merge."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self.differences = Differences()
        self.registrations: Registrations = read_registrations(log)
        self.lives = list(self.registrations.lives.values())
        self.poison: list[Rec] = []
        self.events = 0
        listed = self.registrations.joined_ms.items()
        self._joined_ms = {tp: ms for tp, ms in listed if tp[0] in self.registrations.topics}
        self._events: dict[Origin, tuple[Rec, Event]] = {}
        # {r of a life: {source partition: {(offset, key): numbers of the matchers}}}
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
        # equal matchers are evaluated once; lives that wait for a key are found by that key
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

    def known_since_ms(self, origin: Origin) -> int:
        """The earliest time at which engines could know an event; 0 if it does not exist."""
        known = self._events.get(origin)
        return 0 if known is None else max(known[0].timestamp_ms, self._joined_ms.get(origin[:2], 0))

    # -- the merge, and whether it is legal

    def _merge(self) -> None:
        by_place = self.registrations.lives
        found: dict[int, dict[tuple[str, int], dict[tuple[int, str], Rec]]] = defaultdict(
            lambda: defaultdict(dict)
        )
        last: dict[tuple[int, int, str, int], tuple[int, Rec]] = {}
        wrong = self.differences
        for record in (r for rs in self.log.kind("trigger") for r in rs):
            written = read_match(record)
            source = (written.topic, written.partition)
            known = self._events.get((*source, written.offset))
            if known is None:
                wrong.unexpected.append(f"{record}: a match of {written.origin}, which has no event")
                continue
            self._compare_event(written, *known)
            for target in written.targets:
                life = by_place.get((target.r, target.incarnation))
                if life is None:
                    wrong.unexpected.append(
                        f"{record}: a match of {written.origin} for {target.incarnation[:8]} @{target.r}, "
                        "which is not in the registry"
                    )
                    continue
                at = (written.offset, target.key)
                numbers = self.expected[life.r][source].get(at)
                if numbers is None or numbers != tuple(sorted(target.matchers)):
                    wrong.unexpected.append(
                        f"{record}: a match of {written.origin} (stamp {written.timestamp_ms}) with key "
                        f"{target.key!r} and matchers {target.matchers} for {life} since {life.since_ms}: "
                        f"it matches {numbers or 'none'}"
                    )
                    continue
                earlier = found[life.r][source].get(at)
                if earlier is not None:
                    wrong.duplicated.append(
                        f"{record}: match of {written.origin}, key {target.key!r}, is at {earlier} too: "
                        f"{life}"
                    )
                    continue
                place = (life.r, record.partition, *source)
                if place in last and last[place][0] > written.offset:
                    wrong.unexpected.append(
                        f"{record}: the match of {written.origin} for {life} comes after that of offset "
                        f"{last[place][0]} at {last[place][1]}"
                    )
                else:
                    last[place] = (written.offset, record)
                found[life.r][source][at] = record
                fold = self._fold_of(life, target.key)
                if fold.partition not in (None, record.partition):
                    wrong.unexpected.append(
                        f"{record}: key {target.key!r} of {life} is on partition {fold.partition} too"
                    )
                    continue
                fold.partition = record.partition
                event = known[1]
                match = Match(
                    event, numbers, written.topic, written.partition, written.offset, written.timestamp_ms
                )
                fold.matches.append((record.offset, record.timestamp_ms, match))
        for life in self.lives:
            for source, wanted in self.expected[life.r].items():
                self._missing_matches(life, source, wanted, found[life.r][source])

    def _compare_event(self, written: MatchRecord, record: Rec, event: Event) -> None:
        if written.timestamp_ms != record.timestamp_ms or written.event.identity != event.identity:
            self.differences.unexpected.append(
                f"{written.record}: it says {written.event.identity} stamped {written.timestamp_ms}, "
                f"and {record} holds {event.identity} stamped {record.timestamp_ms}"
            )

    def _missing_matches(
        self,
        life: Life,
        source: tuple[str, int],
        wanted: dict[tuple[int, str], tuple[int, ...]],
        found: dict[tuple[int, str], Rec],
    ) -> None:
        """Reports missing matches; of an ended life only those before its last one, as it may end there."""
        until = max((offset for offset, _ in found), default=-1)
        for offset, key in wanted:
            if (offset, key) not in found and (life.ended is None or offset < until):
                self.differences.missing.append(
                    f"{source[0]}[{source[1]}]@{offset}: no match with key {key!r} for {life}"
                    + ("" if life.ended is None else f", which ended at registry offset {life.ended}")
                )

    # -- the fold

    def _fold(self) -> None:
        for life in self.lives:
            if life.key is not None or not life.condition.keyed:
                self._fold_of(life, life.key or "")
        for fold in self.folds.values():
            fold.run()

    def _fold_of(self, life: Life, key: str) -> Fold:
        return self.folds.setdefault((life.r, key), Fold(life, key, joined_ms=self._joined_ms))

    def advance(self, now_ms: int) -> int | None:
        """Applies ticks up to now, after the last event. Returns the next due time, or None."""
        following: list[int] = []
        for fold in self.folds.values():
            life = fold.life
            if not life.condition.needs_ticks:
                continue
            fold.tick(now_ms)
            if life.ended is None and not (life.kind == "one-shot" and fold.fired):
                wakeup = next_wakeup(life.condition, fold.state)
                if wakeup is not None:
                    following.append(wakeup)
        return min(following, default=None)

    def of_life(self) -> dict[int, list[tuple[str, Fold]]]:
        """{r: [(key, fold)]} of all lives."""
        found: dict[int, list[tuple[str, Fold]]] = defaultdict(list)
        for (r, key), fold in self.folds.items():
            found[r].append((key, fold))
        return found

    def node_kinds(self, life: Life) -> Counter[str]:
        """How often each kind of node occurs in a life's condition."""
        kinds: Counter[str] = Counter()
        left = [life.condition]
        while left:
            node = left.pop()
            kinds[type(node).__name__] += 1
            left += node.operands
        return kinds
