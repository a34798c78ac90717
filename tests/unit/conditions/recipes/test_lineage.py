"""`openlineage_run()` and `dataset_written()`: which events they accept, and under which key."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from interlock import ConditionError, Event, dataset_written, day, openlineage_run, param
from interlock.conditions import from_json, parse
from interlock.conditions.index import MatcherIndex
from interlock.conditions.nodes.matcher import Matcher
from interlock.events.openlineage import from_openlineage
from interlock.testing import fires

from tests.kit import lineage
from tests.kit.lineage import RUN_ID, dataset, run_event, text


def event_of(form: object) -> Event:
    return from_openlineage(text(form))


@pytest.mark.parametrize(
    ("matcher", "accepted"),
    [
        (openlineage_run("shop.load"), True),
        (openlineage_run("shop.load", "prod"), True),
        (openlineage_run("shop.load", "test"), False),
        (openlineage_run("shop.loa"), False),
        (openlineage_run("shop.load", state="fail"), False),
        (openlineage_run("shop.load", state=["fail", "complete"]), True),
    ],
)
def test_a_run_is_accepted_by_job_namespace_and_state(matcher: Matcher, accepted: bool) -> None:
    assert matcher.accepts(event_of(run_event())) is accepted
    assert not matcher.accepts(event_of(run_event("START")))
    assert not matcher.accepts(event_of(lineage.of_a_job()))


@pytest.mark.parametrize(
    ("by", "key"),
    [
        ("nominal_time", "2026-11-19T00:00:00Z"),
        (day("nominal_time", tz="America/New_York"), "2026-11-18"),
        ("run_id", RUN_ID),
        ("data.job.namespace", "prod"),
        (["nominal_time", "run_id"], f'["2026-11-19T00:00:00Z","{RUN_ID}"]'),
        (day("time", tz="UTC"), "2026-11-20"),
        ("parent_run_id", None),
    ],
)
def test_the_key_is_a_short_name_or_a_path(by: Any, key: str | None) -> None:
    assert openlineage_run("shop.load", by=by).key_of(event_of(lineage.of_airflow())) == key


def test_the_key_of_a_spark_action_can_be_the_run_of_its_application() -> None:
    matcher = dataset_written("s3://lake", "warehouse/orders", by="parent_run_id")
    assert matcher.key_of(event_of(lineage.of_spark())) == "0197a1b2-0000-7000-8000-000000000001"


def test_an_offset_moves_the_day_of_the_awaited_run() -> None:
    for offset in ("1d", timedelta(days=1)):
        by = day("nominal_time", tz="UTC")
        assert openlineage_run("shop.load", by=by, offset=offset).key_of(event_of(lineage.of_airflow())) == (
            "2026-11-20"
        )


@pytest.mark.parametrize(
    ("names", "accepted"),
    [
        (("s3://lake", "warehouse/orders"), True),
        (("hive://meta:9083", "shop.orders"), True),
        (("s3://raw", "orders/2026"), False),  # an input
        (("s3://lake", "shop.orders"), False),
        (("s3://lake", "warehouse/order"), False),
        (("s3://lak", "warehouse/orders"), False),
        (("lake", "warehouse/orders"), False),
    ],
)
def test_a_dataset_is_written_when_a_complete_run_has_it_as_output_by_any_of_its_names(
    names: tuple[str, str], accepted: bool
) -> None:
    matcher = dataset_written(*names)
    assert matcher.accepts(event_of(lineage.of_spark())) is accepted
    assert not matcher.accepts(event_of(lineage.of_spark() | {"eventType": "START"}))
    assert not matcher.accepts(event_of(lineage.of_spark() | {"eventType": "FAIL"}))


def test_a_write_that_must_be_measured_is_not_the_complete_event_of_a_failed_write() -> None:
    written = lineage.of_spark()
    failed = lineage.of_spark()
    failed["outputs"][0]["outputFacets"] = {}
    for names in (("s3://lake", "warehouse/orders"), ("hive://meta:9083", "shop.orders")):
        assert dataset_written(*names, measured=True).accepts(event_of(written))
        assert not dataset_written(*names, measured=True).accepts(event_of(failed))
        assert dataset_written(*names).accepts(event_of(failed))


def test_each_output_is_measured_for_itself() -> None:
    [measured] = lineage.of_spark()["outputs"]
    event = event_of(run_event(outputs=[dataset("file", "/x"), measured]))
    assert dataset_written("s3://lake", "warehouse/orders", measured=True).accepts(event)
    assert not dataset_written("file", "/x", measured=True).accepts(event)


@pytest.mark.parametrize(
    "names",
    [
        ("a b", "c d"),
        ("n|s", "a"),
        ("n", "s|a"),
        ("ü", "'"),
        ("n", '"\\'),
        ("n", "%20"),
        ("n", "é" * 400),
        ("n", "a b c"),
    ],
)
def test_names_of_any_characters_are_found_and_no_other_name_is(names: tuple[str, str]) -> None:
    others = [("n", "a"), ("a", "b"), ("n", "é" * 399), ("n", "x")]
    matcher = dataset_written(*names)
    assert matcher.accepts(event_of(run_event(outputs=[dataset(*each) for each in [*others, names]])))
    assert not matcher.accepts(event_of(run_event(outputs=[dataset(*each) for each in others])))
    assert parse(str(matcher)) == from_json(matcher.to_json()) == matcher


def test_the_largest_list_of_outputs_is_read_and_so_is_an_event_of_any_size() -> None:
    many = [dataset("s3://lake", f"part/{number:040}") for number in range(1000)]
    form = run_event(outputs=[*many, dataset("file", "/x")], facet="x" * 600_000)
    assert dataset_written("file", "/x").accepts(event_of(form))
    assert not dataset_written("file", "/y").accepts(event_of(form))


def test_no_outputs_are_no_match_and_no_error() -> None:
    verdict = dataset_written("file", "/x").verdict(event_of(lineage.of_airflow()))
    assert (verdict.accepted, verdict.error) == (False, None)


def test_the_index_finds_both_by_type() -> None:
    index = MatcherIndex()
    index.add("run", openlineage_run("shop.load"))
    index.add("written", dataset_written("file", "/x"))
    found = index.lookup(event_of(run_event(outputs=[dataset("file", "/x")])))
    assert {hit.handle for hit in found} == {"run", "written"}
    assert not index.lookup(event_of(run_event("START", outputs=[dataset("file", "/x")])))


def test_they_combine_like_other_matchers() -> None:
    by = day("nominal_time", tz="UTC")
    both = openlineage_run("shop.load", by=by) & openlineage_run("shop.rates", by=by)
    load = lineage.of_airflow()
    rates = lineage.of_airflow() | {"job": {"namespace": "prod", "name": "shop.rates"}}
    assert fires(both, [event_of(load), event_of(rates)])
    assert not fires(both, [event_of(load), event_of(load)])


@pytest.mark.parametrize(
    ("call", "accepted", "refused"),
    [
        (
            lambda: dataset_written("s3://lake", "orders/*"),
            [("s3://lake", "orders/1")],
            [("s3://lake", "rates/1")],
        ),
        (lambda: dataset_written("s3://*", "orders"), [("s3://lake", "orders")], [("file", "orders")]),
        (lambda: dataset_written("*", "orders"), [("file", "orders")], [("file", "order")]),
        (lambda: dataset_written("f", "a/*/b c"), [("f", "a/1/b c")], [("f", "a/1/b"), ("f", "x/a/1/b c")]),
    ],
)
def test_the_error_about_a_wildcard_shows_the_event_that_accepts_them(
    call: Callable[[], object], accepted: list[tuple[str, str]], refused: list[tuple[str, str]]
) -> None:
    with pytest.raises(ConditionError, match=r"\* is not a wildcard") as raised:
        call()
    written = re.search(r"event\(.*\)", str(raised.value))
    assert written is not None
    [matcher] = parse(written[0]).matchers
    for names, expected in [*((each, True) for each in accepted), *((each, False) for each in refused)]:
        assert matcher.accepts(event_of(run_event(outputs=[dataset(*names)]))) is expected


def test_a_job_with_a_wildcard_is_refused_with_what_to_write() -> None:
    with pytest.raises(ConditionError, match=r'Prefix\(subject="shop\."\).*nominalStartTime'):
        openlineage_run("shop.*")


@pytest.mark.parametrize(
    ("call", "expected_text"),
    [
        (lambda: openlineage_run("a", state="COMPLETE"), "one of start, running, complete"),
        (lambda: openlineage_run("a", offset="1d"), "offset needs one path in by="),
        (lambda: openlineage_run("a", by="nominalTime"), "no attribute 'nominalTime'"),
        (lambda: dataset_written("a", "b", by=["run_id", "runId"]), 'write by="data.runId"'),
        (lambda: openlineage_run("a", "{{ var.value.x }}"), "namespace"),
        (lambda: dataset_written("a", ""), "name is ''"),
    ],
)
def test_wrong_arguments_are_named(call: Callable[[], object], expected_text: str) -> None:
    with pytest.raises(ConditionError, match=re.escape(expected_text)):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: dataset_written("s3://lake", "orders/{{ ds }}"),
        lambda: dataset_written("s3://{{ bucket }}", "orders"),
        lambda: dataset_written("s3://lake", param("name")),  # type: ignore[arg-type]
    ],
)
def test_the_error_about_a_name_that_differs_from_run_to_run_shows_the_event_to_write(
    call: Callable[[], object],
) -> None:
    """The error named arguments that dataset_written() does not take, and a key that no event has."""
    with pytest.raises(ConditionError) as raised:
        call()
    written = re.search(r"(?i:write )(event\(.*\)), and param_values=", str(raised.value))
    assert written is not None
    of_the_day = parse(written[1]).bind(dataset="s3://lake|orders/2026-11-20")
    outputs = [dataset("s3://lake", f"orders/2026-11-{day}") for day in (19, 20)]
    ends = [from_openlineage(text(run_event(outputs=[each]))) for each in outputs]
    assert [bool(fires(of_the_day, [end])) for end in ends] == [False, True]


def test_the_error_about_a_template_as_job_names_attributes_that_the_events_have() -> None:
    for call in (lambda: openlineage_run("{{ job }}"), lambda: openlineage_run("a", namespace="{{ space }}")):
        with pytest.raises(ConditionError, match=r'subject=param\("x"\)\), or source=param'):
            call()
