"""Compares the topics with the model: firings by id, dead letters, leaked states.

`python -m tests.chaos.judge FILE` judges the kept log of a run again.
"""

from __future__ import annotations

import sys
from bisect import bisect_right
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from interlock.conditions import State, closes_at

from .deliveries import DELIVERY
from .log import Life, Log, Rec, Stored, read_action, read_states
from .model import Differences, Expected, Fold, Model

TTL_MS = 30 * 24 * 3600 * 1000  # how long a bus keeps an idle key
# A key may be closed some time after it is due, since ticks wait for a cut.
CLOSING_GRACE_MS = 60_000
# The greatest delay of a firing after the last fault, or after engines worked off a backlog (`Backlog`). A
# dead engine's session lasts 6 s; if no engine ends its transaction, a broker does after 15 s, and it looks
# every 10 s.
LATE_MS = 45_000


@dataclass
class Verdict:
    """The result of a run."""

    events: int = 0
    firings: int = 0
    fired_by_node: Counter[str] = field(default_factory=Counter)
    fired_by_life: Counter[str] = field(default_factory=Counter)  # one-shot or durable, live or look-back
    timers_late_ms: list[int] = field(default_factory=list)  # after the due time and the last fault
    differences: Differences = field(default_factory=Differences)


@dataclass
class _Fired:
    record: Rec
    form: dict[str, Any]

    @property
    def id(self) -> str:
        return str(self.form["firing"]["id"])

    @property
    def name(self) -> str:
        """Like `Expected.name`."""
        origins = self.form["firing"]["origins"].items()
        places = {
            label: [(o["topic"], o["partition"], o["offset"]) for o in together]
            for label, together in origins
        }
        return f"{self.id} {sorted(places.items())}"


def judge(log: Log, now_ms: int) -> Verdict:
    """The verdict on a complete log, at time `now_ms`."""
    model = Model(log)
    model.advance(now_ms)
    return Judge(log, model, now_ms).verdict()


def reconcile(log: Log, model: Model, now_ms: int) -> list[Fold]:
    """Searches for legal ticks that explain the action topic. Returns the keys without an explanation.

    Only for conditions that need ticks: for others ticks change nothing.
    """
    actual: dict[tuple[str, str], list[str]] = defaultdict(list)
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for fired in _fired(log):
        of_key = fired.form["incarnation"], fired.form["firing"]["key"] or ""
        actual[of_key].append(fired.id)
        names[of_key].append(fired.name)
    one_shots = {incarnation for incarnation, _ in actual}
    lives = Counter(life.incarnation for life in model.lives)
    unexplained = []
    for fold in model.folds.values():
        life = fold.life
        found = actual.get((life.incarnation, fold.key), [])
        if life.kind == "one-shot" and not found and life.incarnation in one_shots:
            continue  # another key fired first
        firings = fold.fired[:1] if life.kind == "one-shot" else fold.fired
        taken = [each.id for each in firings]
        named = names.get((life.incarnation, fold.key), [])
        by_ticks = life.condition.needs_ticks and lives[life.incarnation] == 1
        if by_ticks and [each.name for each in firings] != named and fold.explain(named, now_ms):
            continue
        if taken == found or (life.ended is not None and taken[: len(found)] == found):
            continue
        if lives[life.incarnation] > 1 and taken == found[len(found) - len(taken) :]:
            continue  # the earlier ones were fired in an earlier life
        if life.condition.needs_ticks:
            # several lives of an incarnation have their own firings
            tries = [found] if lives[life.incarnation] == 1 else [[each] for each in found]
            if any(fold.explain(each, now_ms) for each in tries):
                continue
        if life.ended is None:
            unexplained.append(fold)
    return unexplained


def _fired(log: Log) -> list[_Fired]:
    found = []
    for record in (r for rs in log.kind("action") for r in rs):
        form = read_action(record)
        if form is not None and form["state"] == "fired":
            found.append(_Fired(record, dict(form)))
    return found


def _first(folds: list[tuple[str, Fold]]) -> list[Expected]:
    """The firings that may be the first one of a one-shot life, depending on when its ticks came.

    That is the first one of each key, unless another key's matches, without any tick, end the life before it
    can come.
    """
    firsts = [(fold, fold.fired[0]) for _, fold in folds if fold.fired]
    sure = sorted(
        ((at, key) for key, fold in folds if fold.fired and (at := fold.without_ticks()) is not None)
    )[:2]
    found = []
    for fold, first in firsts:
        last = next((at for at, key in sure if key != fold.key), None)
        comes = first.after + 1 if first.at is None else first.at
        if last is None or comes <= last:
            found.append(first)
    return found


class Judge:
    """Compares log and model. Call `verdict` once. The log's fault times excuse late firings."""

    def __init__(self, log: Log, model: Model, now_ms: int) -> None:
        self._log, self._model, self._now_ms = log, model, now_ms
        self._fault_times = sorted(log.fault_times)
        self._wrong = model.differences
        self._actual: dict[str, list[_Fired]] = defaultdict(list)
        for fired in _fired(log):
            self._actual[fired.form["incarnation"]].append(fired)

    def verdict(self) -> Verdict:
        reconcile(self._log, self._model, self._now_ms)
        by_incarnation: dict[str, list[Life]] = defaultdict(list)
        for life in self._model.lives:
            by_incarnation[life.incarnation].append(life)
        folds = self._model.of_life()
        verdict = Verdict(self._model.events, differences=self._wrong)
        for incarnation, lives in by_incarnation.items():
            self._compare(lives, {life.r: folds.get(life.r, []) for life in lives})
            fired = self._actual.pop(incarnation, [])
            for each in fired:
                late_ms = self._check_time(lives, each)
                if each.form["firing"].get("timer_ms") is not None:
                    verdict.timers_late_ms.append(late_ms)
            verdict.firings += len(fired)
            kinds = self._model.node_kinds(lives[0])
            for kind in kinds:
                verdict.fired_by_node[kind] += len(fired)
            back = "look-back" if lives[0].since_ms < lives[0].opened_ms - 1000 else "live"
            verdict.fired_by_life[f"{lives[0].kind}, {back}"] += len(fired)
        for strange in (x for xs in self._actual.values() for x in xs):
            self._wrong.unexpected.append(
                f"{strange.record}: a firing of {strange.form['subscription']}, which was never registered"
            )
        self._dead_letters()
        self._leaks(folds)
        self._states(folds)
        return verdict

    # -- firings

    def _compare(self, lives: list[Life], folds: dict[int, list[tuple[str, Fold]]]) -> None:
        """Compares the firings of one incarnation in all its lives."""
        actual = self._actual.get(lives[0].incarnation, [])
        counts = Counter(fired.id for fired in actual)
        # an event that is repeated after the key has forgotten it fires again, with the same id
        known: dict[str, list[Expected]] = defaultdict(list)
        for each in (x for fs in folds.values() for _, fold in fs for x in fold.fired):
            known[each.id].append(each)
        allowed: Counter[str] = Counter()
        # An ended life may not have fired: a firing that two lives may have is that of the one in force.
        for life in sorted(lives, key=lambda life: life.ended is not None):
            if life.kind == "one-shot":
                firsts = _first(folds[life.r])
                ids = [each.id for each in firsts]
                here = next((each for each in ids if counts[each] > allowed[each]), None)
                if here is not None:
                    allowed[here] += 1
                elif firsts and life.ended is None:
                    self._miss(life, firsts[0], folds[life.r])
                continue
            for _, fold in folds[life.r]:
                taken = [each.id for each in fold.fired]
                if life.ended is None:
                    for each in fold.fired:
                        if counts[each.id] > allowed[each.id]:
                            allowed[each.id] += 1
                        else:
                            self._miss(life, each, folds[life.r])
                else:
                    self._prefix(life, fold, taken, counts, allowed)
        for number, fired in enumerate(actual):
            self._check_content(lives, fired, known.get(fired.id, []))
            if counts[fired.id] <= allowed[fired.id]:
                continue
            before = [x for x in actual[:number] if x.id == fired.id]
            if before:
                self._wrong.duplicated.append(
                    f"{fired.record}: firing {fired.id} is at {before[0].record} too"
                )
            elif fired.id not in known or not allowed[fired.id]:
                why = "comes too late" if fired.id in known else "does not follow from the matches"
                self._wrong.unexpected.append(f"{fired.record}: {_shown(fired.form)} of {lives[0]} {why}")

    def _prefix(
        self, life: Life, fold: Fold, taken: list[str], counts: Counter[str], allowed: Counter[str]
    ) -> None:
        """An ended life fired for a while: its firings must be the first ones of the fold."""
        own: Counter[str] = Counter()
        here = 0
        for each in taken:
            own[each] += 1
            if counts[each] - allowed[each] >= own[each]:
                here += 1
        first = Counter(taken[:here])
        for each, expected in zip(taken[:here], fold.fired, strict=False):
            if counts[each] - allowed[each] < first[each]:
                self._wrong.missing.append(
                    f"no firing {each} ({_described(expected)}) of {life}, which ended at registry offset "
                    f"{life.ended}, but later ones of the key exist"
                )
        for each in taken:
            if counts[each] > allowed[each]:
                allowed[each] += 1

    def _miss(self, life: Life, expected: Expected, folds: list[tuple[str, Fold]]) -> None:
        partition = next((fold.partition for key, fold in folds if key == expected.key), None)
        trigger = f"{self._log.topic('trigger')}[{partition}]"
        by = "a tick" if expected.at is None else f"{trigger}@{expected.at}"
        self._wrong.missing.append(f"{by}: no firing {expected.id} ({_described(expected)}) of {life}")

    def _check_content(self, lives: list[Life], fired: _Fired, expected: list[Expected]) -> None:
        firing = fired.form["firing"]
        due = firing.get("timer_ms")
        if due is not None and due > fired.record.timestamp_ms:
            self._wrong.unexpected.append(
                f"{fired.record}: fired at {fired.record.timestamp_ms}, before its time {due}: {lives[0]}"
            )
        if not expected:
            return
        all_wanted = [_content(each) for each in expected]
        wanted = all_wanted[0]
        found = {name: firing.get(name, [] if name == "missing" else None) for name in wanted}
        if len(lives) == 1 and found not in all_wanted:
            # in two lives the same events may have two orders
            differ = {name: (found[name], wanted[name]) for name in wanted if found[name] != wanted[name]}
            self._wrong.unexpected.append(
                f"{fired.record}: firing {fired.id} differs, (found, expected): {differ}: {lives[0]}"
            )
        if fired.form.get("kind", "one-shot") != lives[0].kind:
            self._wrong.unexpected.append(f"{fired.record}: its kind is not {lives[0].kind}: {lives[0]}")

    def _check_time(self, lives: list[Life], fired: _Fired) -> int:
        """Checks when a firing came; returns how long after it could be decided and after the last fault."""
        firing, at = fired.form["firing"], fired.record.timestamp_ms
        if firing.get("incomplete"):
            self._wrong.unexpected.append(
                f"{fired.record}: {_shown(fired.form)} is incomplete, but no fault lasts so long: {lives[0]}"
            )
        known = [life.opened_ms for life in lives] + [firing.get("timer_ms") or 0]
        for origins in firing["origins"].values():
            known += [self._model.known_since_ms((o["topic"], o["partition"], o["offset"])) for o in origins]
        before = bisect_right(self._fault_times, at)
        late_ms = at - max(*known, *self._fault_times[max(0, before - 1) : before])
        if late_ms > LATE_MS:
            self._wrong.late.append(
                f"{fired.record}: {_shown(fired.form)} comes {late_ms / 1000:.0f} s too late: {lives[0]}"
            )
        return late_ms

    # -- dead letters

    def _dead_letters(self) -> None:
        origins: dict[str, list[Rec]] = defaultdict(list)
        for record in (r for rs in self._log.kind("dead-letter") for r in rs):
            if record.header("interlock_stage") == DELIVERY:
                continue
            origins[record.header("interlock_origin") or "nowhere"].append(record)
        poison = {str(record) for record in self._model.poison}
        self._wrong.missing += [f"{each}: no dead letter of it" for each in sorted(poison - origins.keys())]
        for origin, records in origins.items():
            if origin not in poison:
                self._wrong.unexpected.append(
                    f"{records[0]}: a dead letter of {origin}: {records[0].header('interlock_reason')}"
                )
            self._wrong.duplicated += [
                f"{each}: the dead letter of {origin} is at {records[0]} too" for each in records[1:]
            ]

    # -- states

    def _leaks(self, folds: dict[int, list[tuple[str, Fold]]]) -> None:
        in_force = {life.incarnation: life for life in self._model.lives if life.ended is None}
        fired = {r for r, together in folds.items() if any(fold.fired for _, fold in together)}
        leaked = self._wrong.leaked_keys
        for stored in read_states(self._log).values():
            life = in_force.get(stored.incarnation)
            what = "meta record" if stored.key is None else f"state of key {stored.key!r}"
            if life is None:
                leaked.append(f"{stored.record}: {what} of {stored.incarnation[:8]}, which is gone")
            elif stored.r != life.r:
                leaked.append(f"{stored.record}: {what} of an earlier life (@{stored.r}) of {life}")
            elif life.kind == "one-shot" and life.r in fired and (stored.key is not None or stored.state):
                leaked.append(f"{stored.record}: {what} of {life}, which has fired")
            elif stored.state is not None:
                self._check_close(stored, life, what)

    def _states(self, folds: dict[int, list[tuple[str, Fold]]]) -> None:
        """Checks that the stored state of a key is that of its matches.

        Only for conditions without ticks: with ticks the same firings may leave different states.
        """
        kept = {(each.incarnation, each.key): each for each in read_states(self._log).values()}
        for life in self._model.lives:
            if life.ended is not None or life.condition.needs_ticks:
                continue
            together = [(key, fold) for key, fold in folds.get(life.r, []) if fold.matches]
            if life.kind == "one-shot" and any(fold.fired for _, fold in together):
                continue
            for key, fold in together:
                closes = closes_at(life.condition, fold.state, TTL_MS)
                found = kept.get((life.incarnation, key)) or kept.get((life.incarnation, None))
                if found is not None and found.state is not None:
                    if _held(State.decode(found.state)) != _held(fold.state):
                        self._wrong.unexpected.append(
                            f"{found.record}: state of key {key!r} of {life} does not follow from its matches"
                        )
                elif closes is not None and closes > self._now_ms:
                    last = f"{self._log.topic('trigger')}[{fold.partition}]@{fold.matches[-1][0]}"
                    self._wrong.missing.append(f"{last}: no state of key {key!r} of {life} after it")

    def _check_close(self, stored: Stored, life: Life, what: str) -> None:
        closes = closes_at(life.condition, State.decode(stored.state or b""), TTL_MS)
        if stored.key is None and closes is None:
            return  # the state of a life with one key is in the meta record, also when empty
        if closes is None or closes + CLOSING_GRACE_MS < self._now_ms:
            late = f"should have closed at {closes}, and it is {self._now_ms}"
            self._wrong.leaked_keys.append(f"{stored.record}: {what} of {life} {late}")


def first_lines(differences: Differences, most: int = 12) -> list[str]:
    """The first differences of each kind, as lines of text."""
    lines = []
    for name, found in vars(differences).items():
        lines += [f"{name}: {' '.join(each.split())}" for each in found[:most]]
        if len(found) > most:
            lines.append(f"{name}: ... and {len(found) - most} more")
    return lines


def _content(expected: Expected) -> dict[str, Any]:
    """The content that the action record of a firing should have."""
    firing = expected.firing
    origins: dict[str, list[dict[str, Any]]] = {}
    for part in firing.taking_part:
        m = part.match
        origins.setdefault(part.label, []).append(
            {"topic": m.topic, "partition": m.partition, "offset": m.offset, "timestamp_ms": m.timestamp_ms}
        )
    return {
        "outcome": firing.outcome,
        "key": expected.key or None,
        "missing": list(firing.missing),
        "timer_ms": firing.timer_ms,
        "origins": origins,
    }


def _held(state: State) -> tuple[Any, ...]:
    """The comparable content of a state: the positions of its events, and what it remembers of earlier
    ones."""
    matches, waiting = (
        [(m.topic, m.partition, m.offset, m.timestamp_ms, m.matchers) for m in each]
        for each in (state.matches, state.waiting)
    )
    return matches, waiting, state.seen, state.last_ms, state.dropped


def _described(expected: Expected) -> str:
    firing = expected.firing
    parts = ", ".join(
        f"{p.label}: {p.match.topic}[{p.match.partition}]@{p.match.offset}" for p in firing.taking_part
    )
    due = "" if firing.timer_ms is None else f", due {firing.timer_ms}"
    return f"{firing.outcome}, key {expected.key!r}, {parts or 'no events'}{due}"


def _shown(form: dict[str, Any]) -> str:
    firing = form["firing"]
    parts = ", ".join(
        f"{label}: {o['topic']}[{o['partition']}]@{o['offset']}"
        for label, origins in firing["origins"].items()
        for o in origins
    )
    due = firing.get("timer_ms")
    return f"firing {firing['id']} ({firing['outcome']}, key {firing['key']!r}, {parts}, due {due})"


def main(path: str) -> None:
    log = Log.load(Path(path))
    last_ms = max(record.timestamp_ms for records in log.partitions.values() for record in records)
    verdict = judge(log, last_ms)
    print(f"{verdict.events} events, {verdict.firings} firings, {verdict.differences.counts()}")
    print(*first_lines(verdict.differences, 100), sep="\n")


if __name__ == "__main__":
    main(sys.argv[1])
