"""A sink that is away for an hour, across a rebalance and restarts, on a clock of its own."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from interlock.engine.runtime import delivering

from tests.simulation.deliverers import DeliveryMadeOf
from tests.simulation.outage import AWAY_MIN, TURNS, Outage, problems

MUST_BE_SEEN = (
    *map(str, TURNS),
    "in flight when a process joined",
    "in flight when its process was killed",
)
REASON = re.compile(r"given up after \d+ failed deliveries; the last failure: (.+)")


def play(
    monkeypatch: pytest.MonkeyPatch, give_up_after_s: float, made_of: DeliveryMadeOf | None = None
) -> Outage:
    world = Outage(give_up_after_s, made_of or DeliveryMadeOf())
    monkeypatch.setattr(delivering, "time", SimpleNamespace(monotonic=world.monotonic))
    monkeypatch.setattr(delivering, "check", lambda *_, **__: None)
    monkeypatch.setattr(delivering, "check_again", lambda _: None)
    world.play()
    return world


def test_once_the_sink_is_back_it_gets_every_firing_of_the_hour(monkeypatch: pytest.MonkeyPatch) -> None:
    world = play(monkeypatch, 2 * 3600.0)
    assert problems(world) == []
    assert all(outcome.accepted == 1 for outcome in world.outcomes.values())
    assert [what for what in MUST_BE_SEEN if not world.seen[what]] == []


def test_what_grows_too_old_in_the_hour_is_a_dead_letter_with_its_reason_and_the_rest_is_accepted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    give_up_after_s = AWAY_MIN * 60 / 3
    world = play(monkeypatch, give_up_after_s)
    assert problems(world) == []
    dead_letters = [
        outcome.dead_letter for outcome in world.outcomes.values() if outcome.dead_letter is not None
    ]
    assert 0 < len(dead_letters) < len(world.outcomes)
    assert all(dead_letter.age_s >= give_up_after_s for dead_letter in dead_letters)
    matched = [REASON.fullmatch(dead_letter.reason) for dead_letter in dead_letters]
    assert {match and match[1] for match in matched} == {str(answer) for answer in TURNS}
