"""The hot path executes no more instructions than it did: bench/README.md "The hot path's guard"."""

from __future__ import annotations

import sys

import pytest

from bench.guard import ROOM, WORKS, bounds, instructions

# Each Python version has bytecode of its own, and the counts are of 3.11; what follows holds on all.
if sys.version_info[:2] == (3, 11):
    # This one takes half a minute, and the look-up that it repeats is measured by itself.
    LONG = ("event hop, an event of a pair among 10,000 others",)

    @pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n in LONG)) for n in WORKS])
    def test_the_hot_path_executes_as_many_instructions_as_before(name: str) -> None:
        now, before = instructions(WORKS[name]), bounds()[name]
        assert abs(now - before) <= ROOM * before, (
            f"{name}: {now} instructions, {before} before. Where that is meant: make bench-guard"
        )

else:  # the counts above say all this: equal pairs have equal counts in guard.json

    def test_a_look_up_costs_the_same_among_one_and_among_ten_thousand() -> None:
        one, many = (
            instructions(WORKS[f"look up among {n}"]) for n in ("1 subscription", "10,000 subscriptions")
        )
        assert many <= (1 + ROOM) * one

    def test_the_event_hop_costs_the_same_alone_and_beside_ten_thousand_others() -> None:
        alone, beside = (
            instructions(WORKS[f"event hop, an event of a pair{others}"])
            for others in ("", " among 10,000 others")
        )
        assert beside <= (1 + ROOM) * alone

    def test_a_step_costs_the_same_after_ten_thousand_events() -> None:
        new, old = (instructions(WORKS[f"step of a pair, {n}"]) for n in ("a new key", "after 10,000 events"))
        assert old <= (1 + ROOM) * new
