"""The published JSON Schema accepts the same forms as the reader."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

import pytest
from hypothesis import given, settings
from interlock.conditions import Condition, ConditionError, from_json
from interlock.conditions import event as event_of
from interlock.conditions.filters.cel.where import MAX_SOURCE_CHARS, MAX_TEXT_CHARS
from jsonschema import Draft202012Validator  # Airflow requires it

from .generators import conditions

SCHEMA = json.loads(
    resources.files("interlock.conditions.forms").joinpath("condition.schema.json").read_text("utf-8")
)
VALIDATOR = Draft202012Validator(SCHEMA)

A, B, C = ({"event": {"exact": {"type": name}}} for name in "abc")
ALL = {"all": [A, B]}


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@settings(max_examples=50)
@given(conditions())
def test_every_form_that_is_written_is_valid(condition: Condition) -> None:
    VALIDATOR.validate(condition.to_json())


def event(**members: Any) -> dict[str, object]:
    return {"event": {"exact": {"type": "a"}} | members}


@pytest.mark.parametrize(
    ("version", "node"),
    [
        (1, None),
        (1, {}),
        (1, {"event": {}}),
        (1, {"event": {"exact": {}}}),
        (1, {"event": {"exact": {"Type": "a"}}}),
        (1, {"event": {"exact": {"data": "a"}}}),
        (1, {"event": {"exact": {"type": ""}}}),
        (1, {"event": {"exact": {"type": "a" * 2049}}}),
        (1, {"event": {"exact": {"type": 1}}}),
        (1, event(by="data")),
        (1, event(by="data.a..b")),
        (1, event(by="data.a[0]")),
        (1, event(by="a b")),
        (1, event(label="")),
        (1, event(label="x" * 129)),
        (1, {"all": [A]}),
        (1, {"all": A}),
        (1, {"all": [A, B], "any": [A, B]}),
        (1, {"event": {"by": "subject"}}),
        (1, {"event": {"filters": []}}),
        (1, event(filters=[{"exact": {}}])),
        (1, event(filters=[{"exact": {"type": "a"}, "prefix": {"type": "a"}}])),
        (1, event(filters=[{"regex": {"type": "a"}}])),
        (1, event(filters=[{"any": []}])),
        (1, event(filters=[{"not": [{"exact": {"type": "a"}}]}])),
        (1, event(filters=[{"sql": 1}])),
        (1, event(where="")),
        (1, event(where="x" * (MAX_SOURCE_CHARS + MAX_TEXT_CHARS + 1))),
        (1, event(by=["subject"])),
        (1, event(by=["subject", "subject"])),
        (1, event(by=[f"a{n}" for n in range(9)])),
        (1, event(keep="one")),
        (1, event(limit=3)),
        (1, event(keep="first", limit=3)),
        (1, event(keep="all", limit=0)),
        (1, event(keep="all", limit=1001)),
        (1, event(unknown=1)),
        (1, {"at_least": {"n": 2, "of": [A, B]}}),
        (1, {"at_least": {"n": 1, "of": [A, B, C]}}),
        (1, {"at_least": {"of": [A, B, C]}}),
        (1, {"count": {"n": 1, "of": A}}),
        (1, {"count": {"n": 1001, "of": A}}),
        (1, {"count": {"n": 2, "of": ALL}}),
        (1, {"sequence": {"of": [A, B]}}),
        (1, {"sequence": {"of": [A], "ordered": True}}),
        (1, {"sequence": {"of": [A, B], "ordered": "true"}}),
        (1, {"within": {"of": ALL}}),
        (1, {"within": {"of": ALL, "duration_ms": 0}}),
        (1, {"within": {"of": ALL, "duration_ms": 1.5}}),
        (1, {"within": {"of": ALL, "duration_ms": 31_622_400_001}}),
        (1, {"within": {"of": ALL, "duration_ms": 10**20}}),
        (1, {"within": {"of": ALL, "duration_ms": 1e20}}),
        (1, {"within": {"of": ALL, "duration_ms": True}}),
        (1, {"expires": {"of": A, "after_ms": 1, "armed_by": "x"}}),
        (1, {"expires": {"of": A, "armed_by": "event"}}),
        (1.5, A),
        (True, A),
        (1, {"within": {"of": ALL, "duration_ms": 1, "lateness_ms": -1}}),
        (1, {"within": {"of": {"any": [A, {"not": B}]}, "duration_ms": 1}}),
        (1, {"within": {"of": {"all": [A, {"not": {"all": [B, C]}}]}, "duration_ms": 1}}),
        (1, {"reset": {"of": ALL, "timezone": "UTC"}}),
        (1, {"reset": {"of": ALL, "cron": "0 0 * * *"}}),
        (1, {"reset": {"of": ALL, "cron": 1, "timezone": "UTC"}}),
        (1, {"not": A}),
        (1, {"all": [A, {"not": B}]}),
        (1, {"absent": {"of": A, "duration_ms": 1}}),
        (1, {"absent": {"of": A, "duration_ms": 1, "armed_by": "x"}}),
        (1, {"absent": {"of": ALL, "duration_ms": 1, "armed_by": "event"}}),
        (1, {"quiet": {"of": A}}),
        (1, {"ordered": {"ordered": A}}),
        (1, {"all": [{"ordered": A}, B]}),
        (1, {"expires": {"of": A}}),
        (1, {"expires": {"of": A, "at": "2026-11-20"}}),
        (1, {"expires": {"of": A, "at": "2026-11-20T18:00:00"}}),
        (1, {"expires": {"of": A, "at": 1}}),
        (1, {"expires": {"of": {"expires": {"of": A, "after_ms": 1}}, "after_ms": 1}}),
        (1, {"all": [{"expires": {"of": A, "after_ms": 1}}, B]}),
        ("1", A),
        (2, A),
        (None, A),
    ],
)
def test_the_reader_refuses_whatever_the_schema_refuses(version: object, node: object) -> None:
    form = {"v": version, "condition": node}
    assert not VALIDATOR.is_valid(form)
    with pytest.raises(ConditionError):
        from_json(form)


@pytest.mark.parametrize(
    "form", [None, [], {}, {"v": 1}, {"condition": A}, {"v": 1, "condition": A, "x": 1}, "x"], ids=repr
)
def test_the_envelope_is_strict(form: object) -> None:
    assert not VALIDATOR.is_valid(form)
    with pytest.raises(ConditionError):
        from_json(form)


def test_the_tables_above_start_from_valid_forms() -> None:
    VALIDATOR.validate({"v": 1, "condition": {"any": [ALL, event(by="data.a", label="x")]}})
    VALIDATOR.validate({"v": 1, "condition": {"within": {"of": {"all": [A, {"not": B}]}, "duration_ms": 1}}})


def test_a_predicate_with_the_values_of_its_parameters_is_valid() -> None:
    """The schema allowed 1,024 characters in all, the reader and the writer that many without the texts."""
    form = event_of("a", where="data.x == param.p || data.y == param.p").bind(p="x" * 2048).to_json()
    VALIDATOR.validate(form)
    assert from_json(form).to_json() == form


@pytest.mark.parametrize(
    ("version", "node"),
    [
        (1.0, A),
        (1, event(keep="all", limit=3.0)),
        (1, {"at_least": {"n": 2.0, "of": [A, B, C]}}),
        (1, {"count": {"n": 3.0, "of": A}}),
        (1, {"within": {"of": ALL, "duration_ms": 1e3, "lateness_ms": -0.0}}),
        (1, {"reset": {"of": ALL, "cron": "0 0 * * *", "timezone": "UTC", "lateness_ms": 0.0}}),
        (1, {"absent": {"of": A, "duration_ms": 1.0, "armed_by": "event"}}),
        (1, {"quiet": {"of": A, "duration_ms": 1.0}}),
        (1, {"expires": {"of": A, "after_ms": 31_622_400_000.0, "armed_by": "event"}}),
        (1, {"expires": {"of": A, "after_ms": 1, "armed_by": "subscription"}}),
    ],
)
def test_whole_numbers_and_defaults_that_the_schema_takes_the_reader_takes(
    version: object, node: object
) -> None:
    form = {"v": version, "condition": node}
    VALIDATOR.validate(form)
    written = json.dumps(from_json(form).to_json())
    assert ".0" not in written
    VALIDATOR.validate(json.loads(written))
