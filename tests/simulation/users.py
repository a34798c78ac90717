"""The users of a world: they register subscriptions, change and remove them, and acknowledge firings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from random import Random
from typing import Final

import msgspec
from interlock.engine.records import (
    ActionRecord,
    LeaseRecord,
    Registration,
    RegistrationKey,
    decode_json,
    encode_json,
)

from tests.simulation.actors import AnyWorld
from tests.simulation.subscriptions import KEYS, UNKEYED, WITH_TIMERS, WITHOUT_TIMERS, Wanted
from tests.simulation.topics import ACTION, REGISTRY

HOUR_MS: Final = 3_600_000


class Users:
    """Those of one world.

    left_over: {registry key: offset of the removal that left it}.
    actions: {name: what happens by chance}; the numbers choose to which subscription. False if it does not
    apply now.
    """

    def __init__(self, rng: Random, world: AnyWorld) -> None:
        """rng: chooses the subscriptions."""
        self._cluster, self._seen, self._say = world.cluster, world.seen, world.say
        self._wanted = _wanted(rng)
        self._nonces = 0
        self._variants: dict[str, int] = {}
        self._registered: dict[str, Registration] = {}  # in force, as the user sees it
        self._first: dict[tuple[str, int], Registration] = {}  # to register again without changes
        self._nonces_of: dict[str, list[bytes]] = {}
        self.left_over: dict[bytes, int] = {}
        self.actions: Mapping[str, Callable[[int, int], bool]] = {
            "register": self._register_one,
            "again": self._register_again,
            "change": self._change,
            "clear": self._clear,
            "race": self._race,
            "remove": self._remove_one,
            "acknowledge": self._acknowledge,
            "lease": self.write_lease,
        }

    def _append(self, key: bytes, value: bytes | None) -> int:
        offset, _ = self._cluster.append(REGISTRY, key, value)
        return offset

    def _register(self, wanted: Wanted) -> None:
        variant = self._variants.get(wanted.name, 0)
        # a wait keeps its `since`: what is registered again is the same incarnation
        registration = self._first.get((wanted.name, variant))
        if registration is None:
            registration = wanted.registration(variant, self._cluster.now_ms)
            self._first[wanted.name, variant] = registration
        self._nonces += 1
        key = RegistrationKey(registration.incarnation, f"n{self._nonces}").encode()
        offset = self._append(key, encode_json(registration))
        self._registered[wanted.name] = registration
        self._nonces_of.setdefault(wanted.name, []).append(key)
        self._say(
            f"registers {wanted.kind} {wanted.name} {registration.incarnation[:6]} key={wanted.key} "
            f"since {registration.since_ms - 1_000_000_000_000} at {REGISTRY}@{offset}: "
            f"{registration.build_condition()}"
        )

    def _register_one(self, n: int, _: int) -> bool:
        wanted = self._wanted[n % len(self._wanted)]
        if wanted.name in self._registered:
            return False
        self._register(wanted)
        return True

    def _register_again(self, n: int, _: int) -> bool:
        """The same registration once more, with another nonce."""
        wanted = self._wanted[n % len(self._wanted)]
        if wanted.name not in self._registered:
            return False
        self._register(wanted)
        self._seen["registered again"] += 1
        return True

    def _change(self, n: int, _: int) -> bool:
        """A durable subscription with another condition."""
        wanted = self._wanted[n % len(self._wanted)]
        if wanted.name not in self._registered or wanted.kind != "durable":
            return False
        self._variants[wanted.name] = self._variants.get(wanted.name, 0) + 1
        before = self._registered[wanted.name].incarnation
        self._register(wanted)
        self._seen["durable changed"] += self._registered[wanted.name].incarnation != before
        return True

    def _clear(self, n: int, _: int) -> bool:
        """A task that waits is cleared: another incarnation takes the place of its registration."""
        wanted = self._wanted[n % len(self._wanted)]
        if wanted.name not in self._registered or wanted.kind != "one-shot":
            return False
        self._variants[wanted.name] = self._variants.get(wanted.name, 0) + 1
        self._register(wanted)
        self._seen["one-shot cleared"] += 1
        return True

    def _race(self, n: int, what: int) -> bool:
        """A process removes the keys it knows; another registers the same meanwhile, perhaps twice."""
        names = [*self._registered]
        if not names:
            return False
        name = names[n % len(names)]
        wanted = next(each for each in self._wanted if each.name == name)
        known = [*self._nonces_of[name]]
        self._register(wanted)
        unknown = self._nonces_of[name][-1]
        self._remove(name, known)
        self._nonces_of[name] = [unknown]
        self.left_over[unknown] = self._cluster.topics[REGISTRY.topic].logs[0].end - len(known)
        if what % 4:
            self._register(wanted)
        self._seen["registration during a removal"] += 1
        return True

    def _remove(self, name: str, known: list[bytes] | None = None) -> None:
        del self._registered[name]
        for key in known or self._nonces_of.pop(name):
            offset = self._append(key, None)
            self._say(f"removes {name} {key.decode()[:6]} at {REGISTRY}@{offset}")

    def _remove_one(self, n: int, _: int) -> bool:
        names = [*self._registered]
        if not names:
            return False
        self._remove(names[n % len(names)])
        self._seen["removed"] += 1
        return True

    def _acknowledge(self, _: int, __: int) -> bool:
        """A task has resumed: its firing is acknowledged, and its registration goes."""
        for log in self._cluster.topics[ACTION].logs:
            records, _end = log.read(0, 1 << 30)
            for record in records:
                action = decode_json(ActionRecord, record.value or b"", str(record))
                registration = self._registered.get(action.subscription)
                if (
                    action.kind == "one-shot"
                    and action.state == "fired"
                    and registration is not None
                    and registration.incarnation == action.incarnation
                ):
                    acked = msgspec.structs.replace(action, state="acked")
                    self._cluster.append(log.tp, record.key, encode_json(acked))
                    self._say(f"{action.subscription} is acknowledged")
                    self._remove(action.subscription)
                    self._seen["acknowledged"] += 1
                    return True
        return False

    def write_lease(self, _: int = 0, __: int = 0) -> bool:
        """A process that has all the waits renews their lease."""
        names = [registration.incarnation for registration in self._registered.values()]
        lease = LeaseRecord(deployment="d", incarnations=names, host="h")
        self._append(b"lease/p/0", encode_json(lease))
        return True


def _wanted(rng: Random) -> list[Wanted]:
    wanted = []
    for n in range(rng.choice((1, 2, 2, 3, 4))):
        durable = rng.random() < 0.5
        timed = rng.random() < 0.5
        pool = WITH_TIMERS if timed else WITHOUT_TIMERS
        key: str | None = None
        if not durable:
            key = rng.choice(KEYS)
        if rng.random() < 0.3:
            pool, key = UNKEYED, None
        variants = tuple(rng.choice(pool) for _ in range(3 if durable else 1))
        back = rng.choice((-3_000, 0, 150, 800, 2_000, 5_000, HOUR_MS, HOUR_MS))
        wanted.append(Wanted(f"s{n}", "durable" if durable else "one-shot", variants, key, back))
    return wanted
