"""The question of a backtest: which condition, for which key, since when. It is sent to executors."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from ....conditions import EMPTY, Condition, ConditionError, State, canonical_key, from_json, opened, parse
from ....conditions.nodes.key import KeyPart
from ....conditions.nodes.zoned import zoned_key

# How long a bus keeps an idle key; the same as in engine.protocol.context.
TTL_MS: Final = 30 * 24 * 3600 * 1000


@dataclass(frozen=True)
class Question:
    """A condition, and how to evaluate it.

    text: the condition's JSON form. key: the only key to evaluate, canonical; None: every key by itself.
    once: a wait, which ends with its first firing; else a durable subscription, which keeps firing.
    since_ms: earlier events are ignored; if the key is known in advance, timers run from here.
    ttl_ms: how long an idle key is kept; None: for ever.
    near_misses: how many to keep of each matcher and reason; the others are only counted.
    """

    text: str
    key: str | None = None
    since_ms: int | None = None
    ttl_ms: int | None = TTL_MS
    near_misses: int = 5
    once: bool = False

    @staticmethod
    def of(
        condition: Condition,
        key: KeyPart | Sequence[KeyPart] | None = None,
        *,
        since_ms: int | None = None,
        ttl_ms: int | None = TTL_MS,
        near_misses: int = 5,
        once: bool = False,
    ) -> Question:
        """Checks the arguments. Raises ConditionError if condition, key and start do not fit together.

        Only a wait has a key: a question with a key is `once`.
        """
        condition.check_key(key is not None)
        own = None if key is None else canonical_key(zoned_key(key, None))
        text = json.dumps(condition.to_json())
        question = Question(text, own, since_ms, ttl_ms, near_misses, once or key is not None)
        if question.runs_from_the_start and since_ms is None:
            raise ConditionError(
                "the condition's timers run from the start of the wait: give --since, or set"
                ' armed_by="event" to count from the first event'
            )
        return question

    @property
    def condition(self) -> Condition:
        """The condition, built once per process."""
        return _built(self.text)

    @property
    def known_key(self) -> str | None:
        """The only key, "" if events have no key; None if each event has its own."""
        if self.key is not None:
            return self.key
        return None if self.condition.keyed else ""

    @property
    def runs_from_the_start(self) -> bool:
        """Whether timers run from the start of the subscription, which needs a known key
        (docs/use/conditions.md B2, X2)."""
        plan = self.condition.plan
        timers = plan.watches_from_the_start or (plan.expires and not plan.expires_by_event)
        return timers and self.known_key is not None

    def first_state(self) -> State:
        """The initial state of each key."""
        if self.runs_from_the_start and self.since_ms is not None:
            return opened(self.condition, self.since_ms, self.since_ms)
        return EMPTY if self.since_ms is None else State(since_ms=self.since_ms)


@lru_cache(8)
def _built(text: str) -> Condition:
    return from_json(json.loads(text))


def condition_of(text: str | None, path: str | None, option: str) -> Condition:
    """The condition in `text`, or at `path` (MODULE:NAME). ConditionError names the wrong option."""
    if (text is None) == (path is None):
        raise ConditionError(f"give either --{option} or --{option}-from")
    if text is not None:
        return parse(text)
    found = named(path or "", f"{option}-from")
    if not isinstance(found, Condition):
        raise ConditionError(
            f"--{option}-from {path!r} is of type {type(found).__name__}: name a condition of the module"
        )
    return found


def named(path: str, option: str) -> object:
    """What is at `path` (MODULE:NAME), the value of this option. ConditionError if there is nothing."""
    module, colon, name = path.partition(":")
    if not (module and colon and name) or module.startswith("."):  # which is relative to no package
        raise ConditionError(f"--{option} {path!r}: write MODULE:NAME, such as dags.settle:ready")
    try:
        found: object = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        raise ConditionError(
            f"--{option} {path!r}: {error}; the module must be on the driver's PYTHONPATH"
        ) from error
    return found
