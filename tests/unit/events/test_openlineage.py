"""OpenLineage events as CloudEvents: what becomes which attribute, and what is refused by name."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock.events import Event, EventError
from interlock.events.attributes import find_problems
from interlock.events.http import BatchTooLargeError
from interlock.events.kafka import decode, encode
from interlock.events.openlineage import (
    dataset_reference,
    from_openlineage,
    from_openlineage_batch,
    source_of,
)

from tests.kit import lineage
from tests.kit.lineage import RUN_ID, dataset, run_event, text


def event_of(form: object) -> Event:
    return from_openlineage(text(form))


@pytest.mark.parametrize("state", ["START", "RUNNING", "COMPLETE", "FAIL", "ABORT", "OTHER", None])
def test_a_run_event_has_the_type_of_its_state_and_the_job_as_subject(state: str | None) -> None:
    event = event_of(run_event(state))
    assert event.type == f"openlineage.run.{(state or 'other').lower()}"
    assert (event.source, event.subject) == ("/openlineage/prod", "shop.load")
    assert event.attributes["time"] == "2026-11-20T06:00:00.123Z"


@pytest.mark.parametrize(
    "made", [lineage.of_spark, lineage.of_airflow, lineage.of_dbt, lineage.of_a_job, lineage.of_a_dataset]
)
def test_the_data_is_the_event_as_it_came_and_the_record_in_kafka_keeps_it(
    made: Callable[[], dict[str, Any]],
) -> None:
    sent = json.dumps(made(), indent=2).encode()
    event = from_openlineage(sent)
    assert event.data == sent
    assert event.payload == made()
    assert decode(*encode(event)) == event


def test_job_and_dataset_events_have_types_of_their_own() -> None:
    job, data = event_of(lineage.of_a_job()), event_of(lineage.of_a_dataset())
    assert (job.type, job.source, job.subject) == ("openlineage.job", "/openlineage/prod", "shop.load")
    assert job.attributes["outputs"] == " file|/lake/orders "
    assert (data.type, data.source, data.subject) == (
        "openlineage.dataset", "/openlineage/file", "/lake/orders",
    )  # fmt: skip


def test_outputs_names_each_output_also_by_its_other_names() -> None:
    event = event_of(lineage.of_spark())
    assert event.attributes["outputs"] == " s3://lake|warehouse/orders hive://meta:9083|shop.orders "
    assert "outputs" not in event_of(lineage.of_airflow()).attributes


@pytest.mark.parametrize(
    "namespace",
    ["prod", "a b", "s3://bucket/x", "ünï", "a%20b", "a/b", "//x", "", "?", "#", "[", "arn:aws:glue:eu:1"],
)
def test_a_source_is_a_uri_reference_and_no_two_namespaces_have_the_same(namespace: str) -> None:
    event = event_of(run_event(job={"namespace": namespace, "name": "j"}))
    assert find_problems(event.attributes) == []
    others = {"prod", "a b", "a%20b", "a/b", "s3://bucket/x", "s3:%2F%2Fbucket%2Fx"} - {namespace}
    assert source_of(namespace) not in {source_of(each) for each in others}


@given(st.lists(st.tuples(st.text(), st.text()), min_size=1, max_size=5))
@settings(max_examples=30, deadline=None)
def test_any_names_of_datasets_give_a_valid_attribute_with_one_word_for_each(
    names: list[tuple[str, str]],
) -> None:
    names = [(space, name) for space, name in names if (space + name).isprintable()] or [("a", "b")]
    event = event_of(run_event(outputs=[dataset(*each) for each in names]))
    words = event.attributes["outputs"].split(" ")[1:-1]
    assert words == list(dict.fromkeys(dataset_reference(*each) for each in names))
    assert len(words) == len(set(names))
    assert decode(*encode(event)) == event


def test_a_long_name_of_a_dataset_is_a_digest_in_outputs() -> None:
    assert dataset_reference("s3://b", "é" * 300).startswith("sha256|")
    assert dataset_reference("s3://b", "é" * 300) != dataset_reference("s3://b", "é" * 301)


def test_more_names_than_a_predicate_reads_are_refused_with_their_number() -> None:
    many = [dataset("s3://lake", f"part/{number:040}") for number in range(1200)]
    assert event_of(run_event(outputs=many[:1000]))
    with pytest.raises(EventError, match="outputs: the names of 1200 datasets take more than 64000 bytes"):
        event_of(run_event(outputs=many))


def test_a_repeat_of_an_event_has_its_id_also_with_other_spaces_and_order() -> None:
    form = lineage.of_spark()
    again = json.dumps(dict(reversed(form.items())), indent=4).encode()
    assert from_openlineage(again).identity == event_of(form).identity


CHANGES: list[dict[str, Any]] = [
    {"state": "FAIL"},
    {"state": None},
    {"job": "other"},
    {"eventTime": "2026-11-20T06:00:00.124Z"},
    {"run": {"runId": RUN_ID.replace("0197", "0198")}},
    {"producer": "https://example.com/tool/1.5"},
    {"outputs": [dataset("file", "/x")]},
    {"inputs": [dataset("file", "/x")]},
    {"run": {"runId": RUN_ID, "facets": {"a": {"n": 1}}}},
    {"run": {"runId": RUN_ID, "facets": {"a": {"n": 1.0}}}},
]


def test_events_that_differ_in_anything_have_different_ids() -> None:
    ids = {event_of(run_event(**change)).id for change in [{}, *CHANGES]}
    assert len(ids) == len(CHANGES) + 1


@pytest.mark.parametrize(
    ("stated", "time"),
    [
        ("2026-11-20T06:00:00Z", "2026-11-20T06:00:00Z"),
        ("2026-11-20T06:00:00.123456789+01:00", "2026-11-20T06:00:00.123456789+01:00"),
        ("2026-11-20T06:00+01:00", "2026-11-20T05:00:00Z"),
        ("2026-11-20T06:00:00+0100", "2026-11-20T05:00:00Z"),
        ("2026-11-20T06:00:00.123456", None),  # as datetime.now().isoformat() gives it
        ("2026-11-20T06:00:00.969066Z[Europe/London]", "2026-11-20T06:00:00.969066Z"),
        ("2026-11-20T06:00+01:00[Europe/Paris]", "2026-11-20T05:00:00Z"),
        ("2026-11-20T06:00:00[Europe/Paris]", None),
        ("2026-11-20 06:00:00+00:00", "2026-11-20T06:00:00Z"),  # str() of a datetime
    ],
)
def test_event_time_is_the_time_if_it_has_a_zone(stated: str, time: str | None) -> None:
    """With a zone's name, as Java's ZonedDateTime writes it, it was refused: MarquezProject/marquez#1757."""
    assert event_of(run_event(eventTime=stated)).attributes.get("time") == time


def test_unknown_members_and_facets_are_kept_and_not_checked() -> None:
    form = run_event(
        unknown=[1, {"a": None}],
        run={"runId": RUN_ID, "facets": {"custom": {"anything": [None, 1.5]}, "none": None}, "more": 1},
        outputs=[dataset("file", "/x", facets={"symlinks": {"identifiers": "wrong"}, "x": {}})],
        inputs=None,
    )
    assert event_of(form).payload == form


def test_an_event_may_lack_the_address_of_its_schema() -> None:
    """Older clients, OpenLineage's own first examples and most events written by hand do not have it."""
    assert event_of(run_event(schemaURL=None)).type == "openlineage.run.complete"


WRONG: list[tuple[dict[str, Any], list[str]]] = [
    ({"eventTime": None}, ["eventTime is missing"]),
    ({"eventTime": "yesterday"}, ["eventTime is 'yesterday': give ISO 8601"]),
    ({"eventTime": "2026-02-30T00:00:00"}, ["eventTime is '2026-02-30T00:00:00'"]),
    ({"eventTime": ""}, ["eventTime is ''"]),
    ({"eventTime": "[Europe/London]"}, ["eventTime is '[Europe/London]'"]),
    ({"eventTime": "2026-11-20T06:00:00." + "1" * 300 + "x"}, ["eventTime is '2026-11-20T06:00:00.1"]),
    ({"eventTime": "2026-11-20T06:00:00Z" + "[a]" * 100_000}, ["eventTime is '2026-11-20T06:00:00Z[a]"]),
    ({"eventTime": 5}, ["eventTime is an int"]),
    ({"state": "COMPLETED"}, ["eventType is 'COMPLETED': give one of START, RUNNING, COMPLETE"]),
    ({"state": "complete"}, ["eventType is 'complete'"]),
    ({"state": 1}, ["eventType is 1"]),
    ({"producer": None}, ["producer is missing"]),
    ({"producer": ["x"]}, ["producer is a list"]),
    ({"schemaURL": 5}, ["schemaURL is an int"]),
    ({"run": {}}, ["run.runId is missing"]),
    ({"run": []}, ["run is a list"]),
    ({"run": {"runId": "1"}}, ["run.runId is '1': give a UUID"]),
    ({"run": {"runId": 1}}, ["run.runId is an int"]),
    ({"run": {"runId": RUN_ID, "facets": []}}, ["run.facets is a list"]),
    ({"run": {"runId": RUN_ID, "facets": {"nominalTime": "x"}}}, ["run.facets.nominalTime is a str"]),
    ({"job": None}, ["job is missing"]),
    ({"job": 5}, ["job is an int"]),
    ({"job": {"namespace": "a"}}, ["job.name is missing"]),
    ({"job": {"name": "a"}}, ["job.namespace is missing"]),
    ({"job": {"namespace": "a", "name": ""}}, ["job.name is empty"]),
    ({"job": {"namespace": "a", "name": "x\0"}}, ["job.name contains a control"]),
    ({"job": {"namespace": 1, "name": {}}}, ["job.namespace is an int", "job.name is a dict"]),
    ({"inputs": {}}, ["inputs is a dict: give a list"]),
    ({"inputs": ["x"]}, ["inputs[0] is a str"]),
    ({"outputs": [dataset("a", "b"), {"name": 1}]}, ["outputs[1].namespace is", "outputs[1].name is"]),
    ({"outputs": [dataset("a", "b", outputFacets=1)]}, ["outputs[0].outputFacets is an int"]),
    ({"run": None, "dataset": dataset("a", "b")}, ["a job and a dataset"]),
    ({"state": 1, "eventTime": 1, "producer": 1, "schemaURL": 1, "run": 1, "inputs": 1},
     ["eventType", "eventTime", "producer", "schemaURL", "run is", "inputs"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "expected_texts"), WRONG)
def test_each_wrong_member_is_named(change: dict[str, Any], expected_texts: list[str]) -> None:
    with pytest.raises(EventError) as raised:
        event_of(run_event(**change))
    for each in expected_texts:
        assert any(each in problem for problem in raised.value.problems), raised.value.problems


@pytest.mark.parametrize(
    "sent",
    [b"", b"x", b"[]", b"3", b"null", b"{}", b'{"run":NaN}', b'{"a":"\\ud800"}', b'"\xff"', b"\xef\xbb\xbf{}",
     b"[" * 5000, b'{"a":' * 3000, b'{"a":' + b"9" * 5000 + b"}"],
)  # fmt: skip
def test_what_is_no_event_is_refused(sent: bytes) -> None:
    with pytest.raises(EventError):
        from_openlineage(sent)


RUN = json.dumps(
    run_event(run={"runId": RUN_ID, "facets": {"say": {"it": 'a "b"', "\u00e9": [{"n": 1}]}}}),
    separators=(",", ":"),
).encode()
REPEATS = [
    (b'"job":', b'"job":{"namespace":"x","name":"y"},"job":', "'job'"),
    (b'"name":"shop.load"', b'"name":"shop.load","name":"shop.load"', "'name'"),
    (b'"name":"shop.load"', b'"n\\u0061me":"other","name":"shop.load"', "'name'"),
    (b'{"n":1}', b'{"n":1,"n":1}', "'n'"),
    (b'"it":', b'"it":null,"it":', "'it'"),
    (b'"it":"a \\"b\\""', b'"it":1,"it":"\\u0022\\u0022"', "'it'"),  # as many quotation marks when encoded
]


@pytest.mark.parametrize(("old", "new", "name"), REPEATS)
def test_a_member_that_appears_twice_is_refused_at_any_level(old: bytes, new: bytes, name: str) -> None:
    assert RUN.count(old) == 1
    with pytest.raises(EventError, match=f"a member twice: {name}"):
        from_openlineage(RUN.replace(old, new))
    events, wrong = from_openlineage_batch(b"[" + RUN + b"," + RUN.replace(old, new) + b"]", 9)
    assert events == {0: from_openlineage(RUN)}
    assert wrong == {1: (f"the JSON has a member twice: {name}",)}


def test_quotation_marks_written_as_escapes_are_no_repeat() -> None:
    escaped = RUN.replace(b'\\"', b"\\u0022")
    assert escaped != RUN
    assert from_openlineage(escaped).identity == from_openlineage(RUN).identity


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
PATHS = [
    ("eventType",), ("eventTime",), ("producer",), ("run",), ("run", "runId"), ("run", "facets"), ("job",),
    ("job", "name"), ("job", "namespace"), ("inputs",), ("inputs", 0), ("outputs", 0), ("outputs", 0, "name"),
    ("outputs", 0, "facets"), ("outputs", 0, "facets", "symlinks"), ("dataset",),
    ("outputs", 0, "facets", "symlinks", "identifiers"),
    ("outputs", 0, "facets", "symlinks", "identifiers", 0),
]  # fmt: skip


@given(path=st.sampled_from(PATHS), value=JSON)
@settings(max_examples=100, deadline=None)
def test_any_value_at_any_member_gives_a_valid_event_or_an_event_error(path: Any, value: object) -> None:
    form: Any = lineage.of_spark()
    at = form
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    with suppress(EventError):
        event = event_of(form)
        assert find_problems(event.attributes) == []
        assert decode(*encode(event)) == event


def test_a_batch_is_its_events_and_names_each_that_is_wrong() -> None:
    forms = [run_event("START"), lineage.of_a_job(), lineage.of_a_dataset()]
    assert from_openlineage_batch(text(forms), 50_000) == (dict(enumerate(map(event_of, forms))), {})
    assert from_openlineage_batch(b"[]", 50_000) == ({}, {})
    events, wrong = from_openlineage_batch(text([{**forms[0], "run": {}}, forms[0], 5]), 50_000)
    assert events == {1: event_of(forms[0])}
    assert wrong == {0: ("run.runId is missing",), 2: ("an OpenLineage event is a JSON object, not an int",)}
    with pytest.raises(EventError, match="not a JSON array"):
        from_openlineage_batch(text(forms[0]), 50_000)


def test_a_batch_of_too_many_events_is_refused_before_they_are_read() -> None:
    with pytest.raises(BatchTooLargeError, match="3"):
        from_openlineage_batch(b"[1, 2, 3]", 2)


def test_an_error_about_many_members_stays_short() -> None:
    with pytest.raises(EventError) as raised:
        event_of(run_event(outputs=[1] * 30_000))
    assert len(raised.value.problems) == 21
