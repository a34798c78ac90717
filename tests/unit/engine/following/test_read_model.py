"""The read model: whatever arrives first, it says what the topics hold, and pages begin anywhere."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interlock import event
from interlock.engine.bus import End, Record
from interlock.engine.errors import EngineError, UnknownVersion
from interlock.engine.following import read_model as module
from interlock.engine.following.read_model import ReadModel, Rows
from interlock.engine.following.states import Pending
from interlock.engine.records import (
    BUS_KEY,
    BusRecord,
    LeaseRecord,
    Registration,
    RenewalRecord,
    encode_json,
    partition_of,
    sink_key,
)
from interlock.engine.registry.registry import Registered, Registry

from tests.unit.engine.following.logs import CONFIG, HALF_MET, PAIR, meta, of_action, of_state, state
from tests.unit.engine.following.test_firings import ACTIONS, record_of
from tests.unit.engine.following.test_firings import read as read_firings
from tests.unit.engine.following.test_states import by_store
from tests.unit.engine.registry.registry_log import A2, OWN_STEPS, TOPIC, A, B, at, items, key_of

PARTITIONS = 4
BUS = at(0, BUS_KEY, encode_json(BusRecord(partitions=PARTITIONS)))
STATES = st.lists(
    st.tuples(
        st.sampled_from([A, A2, B]),
        st.sampled_from([None, "k"]),
        st.sampled_from([None, b"damaged", meta(HALF_MET), meta(closed=True), state(HALF_MET)]),
    ),
    max_size=15,
)


def place_of(name: str) -> int:
    return partition_of("one-shot", name, "", PARTITIONS)


def is_equal(found: Pending, registered: Registered, records: Sequence[Record]) -> bool:
    number = place_of(registered.registration.subscription)
    return found == by_store([each for each in records if each.source.partition == number], registered)


@settings(max_examples=300)
@given(OWN_STEPS, STATES, st.lists(ACTIONS, max_size=15), st.randoms(use_true_random=False))
def test_whatever_arrives_first_it_says_what_the_topics_hold(
    steps: Sequence[Any], of_states: Sequence[Any], actions: Sequence[Any], chance: Any
) -> None:
    registry = [shifted(each) for each in items(steps) if getattr(each, "key", None) != BUS_KEY]
    states = [
        of_state(n, whose.incarnation, key, value, place_of(whose.subscription))
        for n, (whose, key, value) in enumerate(of_states)
    ]
    firings = [record_of(offset, *each) for offset, each in enumerate(actions)]
    end = End(TOPIC, 99)
    logs: list[list[Record | End]] = [[BUS, *registry, end], [*states], [*firings]]
    whole, model = Registry(), ReadModel(CONFIG)
    for item in logs[0]:
        whole.apply(item)
    while left := [log for log in logs if log]:
        model.apply(chance.choice(left).pop(0))
        if chance.random() < 0.2:  # somebody asks
            model.page(Rows(), 2)
    in_force = [(each.registration, each.offset) for each in reversed(whole.between(0, 99))]
    assert [(each.registration, each.offset) for each in model.page(Rows(), 99).rows] == in_force
    assert model.page(Rows(), 0).total == len(in_force)
    for name in "abc":
        assert getattr(model.by_name(name), "offset", None) == getattr(whole.by_name(name), "offset", None)
    for registered in whole.between(0, 99):
        assert is_equal(model.pending(registered), registered, states)
    assert model.firings(99).rows == list(read_firings(firings).newest())


def shifted(record: Record | End) -> Record | End:
    """Behind the bus record."""
    if isinstance(record, End):
        return End(TOPIC, record.offset + 1)
    return msgspec.structs.replace(record, offset=record.offset + 1, timestamp_ms=record.timestamp_ms + 1)


def filled(*waits: Registration, follow: Callable[[ReadModel], None] = lambda _: None) -> ReadModel:
    """A model with these registrations, from offset 1 on."""
    model = ReadModel(CONFIG)
    model.apply(BUS)
    for offset, wait in enumerate(waits, 1):
        model.apply(at(offset, key_of(wait), encode_json(wait)))
    follow(model)
    return model


def names(page: module.Page) -> list[str]:
    return [each.registration.subscription for each in page.rows]


WAITS = [Registration.of(f"airflow/d{n % 3}/r/t{n}", PAIR, f"k{n % 2}", 0) for n in range(9)]


@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_continue_where_the_last_one_ended(newest_first: bool) -> None:
    model, after, found = filled(*WAITS), None, []
    while True:
        page = model.page(Rows(newest_first=newest_first), 4, after)
        found += names(page)
        assert page.total == len(WAITS)
        after = page.next
        if after is None:
            break
        assert len(page.rows) == 4
    expected = [each.subscription for each in WAITS]
    assert found == (expected[::-1] if newest_first else expected)


@pytest.mark.parametrize(
    ("wanted", "numbers"),
    [
        (Rows(dag_id="d1"), [7, 4, 1]),
        (Rows(dag_id="d1", dags={"d0"}), []),
        (Rows(dags=["d0", "d1"]), [7, 6, 4, 3, 1, 0]),
        (Rows(search="/t8"), [8]),
        (Rows(search="r/t", dag_id="d2"), [8, 5, 2]),
        (Rows(key="k1"), [7, 5, 3, 1]),
        (Rows(key="k"), []),
        (Rows(key="k1", event_type="y", dag_id="d0"), [3]),
        (Rows(event_type="z"), [9]),
        (Rows(kind="durable"), [9]),
        (Rows(kind="durable", dags=()), []),
    ],
    ids=str,
)
def test_rows_are_chosen_by_what_is_asked_for(wanted: Rows, numbers: list[int]) -> None:
    durable = Registration.of("airflow/dispatch/d0", event("z"), None, 0, kind="durable")
    if wanted.dags:
        durable = msgspec.structs.replace(durable, subscription="other/dispatch/d0")
        durable = Registration.of("other/dispatch/d0", event("z"), None, 0, kind="durable")
    waits = [*WAITS, durable]
    page = filled(*waits).page(wanted, 20)
    assert names(page) == [waits[number].subscription for number in numbers]
    assert (page.total, page.next) == (len(numbers), None)


def test_the_newest_that_name_a_type_and_have_one_of_some_keys_are_found_in_one_look() -> None:
    other = Registration.of("airflow/d0/r/z", event("z"), "k0", 0)
    durable = Registration.of("airflow/dispatch/d0", PAIR, None, 0, kind="durable")
    model = filled(*WAITS, other, durable)

    def found(limit: int, keys: Sequence[str] | None = None) -> list[int]:
        newest = model.newest("one-shot", "x", limit, keys)
        return [[*WAITS, other].index(each.registration) for each in newest]

    assert found(3) == [8, 7, 6]
    assert found(2, ["k1"]) == [7, 5]
    assert found(2, ["k0", "k1", "k2"]) == [8, 7, 6, 5]
    assert found(20, ["k1"]) == [7, 5, 3, 1]
    assert found(20, ["k2"]) == []
    assert model.newest("durable", "y", 20)[0].registration == durable
    assert model.newest("one-shot", "w", 20) == []


def test_filters_look_at_registrations_that_are_built_as_at_others() -> None:
    changed = msgspec.structs.replace(WAITS[0], max_keys=7)

    def follow(model: ReadModel) -> None:
        model.apply(at(20, key_of(changed, "again"), encode_json(changed)))  # so its condition is built

    model = filled(*WAITS, follow=follow)
    assert WAITS[0].subscription in names(model.page(Rows(key="k0", event_type="x"), 20))


def test_a_page_of_a_filter_is_of_what_there_is_now() -> None:
    model = filled(*WAITS)
    assert model.page(Rows(search="t"), 2).total == 9
    model.apply(at(20, key_of(WAITS[8]), None))
    assert names(model.page(Rows(search="t"), 2)) == [WAITS[7].subscription, WAITS[6].subscription]
    assert model.page(Rows(search="t"), 2).total == 8


def test_a_damaged_registration_is_no_row_and_the_page_is_full_without_it() -> None:
    damaged = msgspec.structs.replace(WAITS[5], condition=msgspec.Raw(b'{"v":1}'))
    model = filled(*WAITS[:5], damaged, *WAITS[6:])
    page = model.page(Rows(), 4)
    assert names(page) == [WAITS[n].subscription for n in (8, 7, 6, 4)]
    assert (page.next, page.total) == (5, 8)


def test_each_change_has_another_version_and_a_renewed_lease_has_not() -> None:
    model, seen = filled(WAITS[0]), []
    lease = LeaseRecord(deployment="airflow", incarnations=[WAITS[0].incarnation], host="h")
    changes: list[Record | End] = [
        at(10, key_of(WAITS[1]), encode_json(WAITS[1])),
        at(11, key_of(WAITS[1]), None),
        at(12, sink_key("airflow/deliver/a"), b"{}"),
        of_state(0, WAITS[0].incarnation, None, meta(HALF_MET)),
        of_action(0, "a", "f"),
        of_action(1, "a", "f", state="acked"),
    ]
    for item in changes:
        model.apply(item)
        seen.append(model.version)
    leases: list[tuple[bytes, bytes | None]] = [
        (b"lease/p/0", encode_json(lease)),
        (b"renewal/p", encode_json(RenewalRecord())),
        (b"renewal/p", encode_json(RenewalRecord())),
        (b"renewal/p", encode_json(RenewalRecord(ended=True))),
        (b"lease/p/0", None),
    ]
    for offset, (key, value) in enumerate(leases, 20):
        model.apply(at(offset, key, value))
        model.apply(End(TOPIC, offset + 1))
        seen.append(model.version)
    model.be_stale(5)
    seen.append(model.version)
    *before, first, renewed, again, ended, gone, stale = seen
    assert len({*before, first, ended, gone, stale}) == len(seen) - 2
    assert first == renewed == again
    assert model.stale_since_ms == 5
    assert ReadModel(CONFIG).version > model.version


def test_records_of_a_later_version_are_an_error() -> None:
    model = filled()
    assert model.unknown() is None
    later = encode_json(msgspec.structs.replace(WAITS[0], v=99))
    model.apply(at(5, key_of(WAITS[0]), later))
    assert isinstance(model.unknown(), UnknownVersion)


def test_states_that_do_not_fit_are_read_from_kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def pending_of(_: Any, wanted: Any, partitions: int, key: str | None) -> dict[str, Pending]:
        asked.extend(each.registration.subscription for each in wanted)
        return {each.incarnation: Pending(closed=True) for each in wanted}

    monkeypatch.setattr(module, "pending_of", pending_of)
    monkeypatch.setattr(module, "MOST_STATE_BYTES", 10_000)
    model = filled(*WAITS)
    place = {each.subscription: place_of(each.subscription) for each in WAITS}
    full = place[WAITS[0].subscription]
    for offset in range(40):
        model.apply(of_state(offset, f"other-{offset}", None, meta(HALF_MET), full))
    for wait in WAITS:
        model.apply(of_state(99, wait.incarnation, None, meta(HALF_MET), place[wait.subscription]))
    found = [model.by_name(each.subscription) for each in WAITS]
    pending = model.pending_of([each for each in found if each is not None])
    assert sorted(asked) == sorted(name for name, number in place.items() if number == full)
    assert all(pending[each.incarnation].closed == (each.subscription in asked) for each in WAITS)
    kept = [each for each in found if each is not None and each.registration.subscription not in asked]
    assert all(model.open_keys(each) == 1 for each in kept)
    assert [model.open_keys(each) for each in found if each is not None and each not in kept][:1] == [None]


def test_firings_are_chosen_by_what_is_asked_for() -> None:
    model = filled()
    for number, name in enumerate(("airflow/a/r/t", "airflow/a/r/u", "airflow/b/r/t", "airflow/dispatch/a")):
        kind: Any = "durable" if "dispatch" in name else "one-shot"
        state = "acked" if number == 0 else "fired"
        model.apply(of_action(number, name, f"f{number}", second=number, kind=kind, state=state))

    def ids(**wanted: Any) -> list[str]:
        return [each.id for each in model.firings(9, **wanted).rows]

    assert ids() == ["f3", "f2", "f1", "f0"]
    assert ids(dag_id="a") == ["f3", "f1", "f0"]
    assert ids(dags={"b"}) == ["f2"]
    assert ids(dags={"b"}, dag_id="a") == []
    assert ids(search="r/t", only_open=True) == ["f2"]
    assert ids(subscription="airflow/a/r/t") == ["f0"]
    first = model.firings(2, search="r/")
    assert [each.id for each in first.rows] == ["f2", "f1"]
    second = model.firings(2, first.next, search="r/")
    assert ([each.id for each in second.rows], second.next) == (["f0"], None)
    with pytest.raises(ValueError, match="invalid literal"):
        model.firings(2, "no cursor")
    assert model.open_firings("airflow/dispatch/a").count == 1


def test_the_firing_of_a_wait_is_found_by_its_name_or_a_part() -> None:
    model = filled()
    for number, name in enumerate(("airflow/a/r/t", "airflow/b/r/t")):
        model.apply(of_action(number, name, f"f{number}"))
    for name, found in (("airflow/a/r/t", "f0"), ("a/r/t", "f0"), ("b/r", "f1"), ("c", None)):
        assert getattr(model.fired_wait(name), "id", None) == found
    with pytest.raises(EngineError, match="matches 2 fired subscriptions"):
        model.fired_wait("r/t")
