"""What the worlds subscribe: conditions of every kind, with durations of seconds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from interlock.conditions import Condition, absent, at_least, count, event, sequence
from interlock.engine.records import Kind, Registration

PLAIN: Final = "org.apache.kafka.record"
KEYS: Final = ("k0", "k1")
TYPES: Final = ("a", "b", "c")

_a, _b, _c = (event(name, by="subject") for name in TYPES)
_a_any, _b_any = event("a"), event("b")
_plain = event(PLAIN, by="subject")

WITHOUT_TIMERS: Final[tuple[Condition, ...]] = (
    _a,
    _a & _b,
    _a | (_b & _c),
    at_least(2, _a, _b, _c),
    count(_a, 2),
    _a & event(source="s1", by="subject"),  # one event may be both
    (_a & _b).within("10s"),
    _a & _plain,
)
# None for plain records: timers promise nothing without LogAppendTime (docs/use/conditions.md T2, W6).
WITH_TIMERS: Final[tuple[Condition, ...]] = (
    sequence(_a, _b),
    (_a & ~_b).within("5s"),
    absent(_a, "4s"),
    _a.quiet("3s"),
    (_a & _b).expires(after="6s"),
    (_a & _b).expires(after="6s", armed_by="event"),
    (_a & _b).ordered().expires(after="8s"),
    (_a | _b).quiet("2s").expires(after="20s"),
)
UNKEYED: Final[tuple[Condition, ...]] = (
    _a_any & _b_any,
    (_a_any & _b_any).expires(after="5s"),
    absent(_a_any, "5s", armed_by="subscription"),
)


@dataclass(frozen=True)
class Wanted:
    """A subscription that a world may register.

    variants: the conditions that a durable one changes between; a one-shot has one.
    """

    name: str
    kind: Kind
    variants: tuple[Condition, ...]
    key: str | None
    back_ms: int

    def registration(self, variant: int, now_ms: int) -> Registration:
        condition = self.variants[variant % len(self.variants)]
        # As a task that was cleared registers, with `fail_on` as the first of several matchers.
        cleared = self.kind == "one-shot" and self.name[-1] in "147" and len(condition.matchers) > 1
        return Registration.of(
            self.name,
            condition,
            self.key,
            max(0, now_ms - self.back_ms),
            kind=self.kind,
            generation=int(cleared) + (variant if self.kind == "one-shot" else 0),
            fresh=(0,) if cleared else (),
        )
