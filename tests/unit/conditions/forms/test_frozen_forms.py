"""Forms that earlier releases have written still load. Fixtures never change: that would break the format.

A new node or a new version adds entries. `written`: the text as it is written now, if that differs from the
published `text`, which is still read.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from interlock.conditions import Match, State, from_json, parse

FIXTURES = Path(__file__).parent / "fixtures"
CONDITIONS = json.loads((FIXTURES / "conditions.json").read_text("utf-8"))
STATES = json.loads((FIXTURES / "states.json").read_text("utf-8"))


def entries(fixture: dict[str, list[Any]]) -> list[Any]:
    return [
        pytest.param(entry, id=f"{version}: {entry['name']}")
        for version in fixture
        for entry in fixture[version]
    ]


@pytest.mark.parametrize("entry", entries(CONDITIONS))
def test_a_published_form_of_a_condition_loads_and_is_written_again(entry: dict[str, Any]) -> None:
    condition = from_json(entry["form"])
    assert str(condition) == entry.get("written", entry["text"])
    assert json.dumps(condition.to_json()) == json.dumps(entry["form"])


@pytest.mark.parametrize("entry", entries(CONDITIONS))
def test_a_published_text_parses_to_the_same_condition(entry: dict[str, Any]) -> None:
    assert parse(entry["text"]) == from_json(entry["form"])


def as_json(match: Match) -> dict[str, object]:
    values = {} if match.values is None else {str(number): value for number, value in match.values.items()}
    return {
        **({"values": values} if values else {}),
        **({} if match.written is None else {"written": match.written}),
        "id": match.event.id,
        "matchers": list(match.matchers),
        "topic": match.topic,
        "partition": match.partition,
        "offset": match.offset,
        "timestamp_ms": match.timestamp_ms,
        "event": match.event.to_json_dict(),
    }


@pytest.mark.parametrize("entry", entries(STATES))
def test_a_stored_state_loads_with_all_it_holds(entry: dict[str, Any]) -> None:
    state = State.decode(bytes.fromhex(entry["bytes"]))
    assert entry["state"] == {
        "matches": [as_json(match) for match in state.matches],
        "seen": state.seen.hex(),
        "last_ms": state.last_ms,
        "waiting": [as_json(match) for match in state.waiting],
        "clock_ms": state.clock_ms,
        "since_ms": state.since_ms,
        "opened_ms": state.opened_ms,
        "armed_ms": state.armed_ms,
        "came": {str(node): stamp for node, stamp in state.timer_starts.items()},
        "refuters": {str(number): list(times) for number, times in state.negated_times.items()},
        "dropped": state.dropped,
    }


@pytest.mark.parametrize("entry", entries(STATES))
def test_a_stored_state_is_written_again_byte_for_byte(entry: dict[str, Any]) -> None:
    assert State.decode(bytes.fromhex(entry["bytes"])).encode().hex() == entry["bytes"]


def test_a_state_whose_matches_lack_the_members_added_later_loads() -> None:
    """Matches of six members, as they were before `values` and `written`."""
    entry = next(entry for entry in STATES["version 1"] if entry["name"] == "one held")
    head, event, tail = entry["bytes"].partition("9288ab")
    assert head.endswith("98")
    short = f"{head[:-2]}96{event}{tail.replace('cf0000019a9ec06402c0c0', 'cf0000019a9ec06402', 1)}"
    assert len(short) == len(entry["bytes"]) - 4
    assert State.decode(bytes.fromhex(short)) == State.decode(bytes.fromhex(entry["bytes"]))


def test_the_fixtures_have_every_node_and_member() -> None:
    found: set[str] = set()
    waiting: list[Any] = [entry["form"] for entry in CONDITIONS["version 1"]]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            found |= each.keys()
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
    assert found >= {
        *("event", "exact", "filters", "where", "by", "label", "keep", "limit"),
        *("prefix", "suffix", "all", "any", "not", "sql"),
        *(
            "at_least",
            "count",
            "n",
            "of",
            "distinct",
            "sequence",
            "ordered",
            "within",
            "duration_ms",
            "lateness_ms",
        ),
        *("reset", "cron", "timezone", "absent", "armed_by", "quiet", "expires", "after_ms", "at"),
    }
    expiries = [each["form"]["condition"].get("expires", {}) for each in CONDITIONS["version 1"]]
    assert any("armed_by" in each for each in expiries)  # absent() has a member of this name too
    full = next(entry["state"] for entry in STATES["version 1"] if entry["name"] == "every member")
    assert all(full.values())
