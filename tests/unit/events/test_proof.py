"""Which events of Interlock's own types are accepted, and what their proof covers: docs/operate/proof.md."""

from __future__ import annotations

import hashlib
import hmac
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock import Event, EventError
from interlock.events.kafka import decode, encode
from interlock.events.plain import TYPE
from interlock.events.proof import ACCEPTED, FROM, SECRET, Proof, ProofError, without_proof
from interlock.events.taxonomy import DAG_RUN_SUCCEEDED, EMITTED

TOPIC = "bank-event"
OLD, NEW = "canary-old-" + "o" * 30, "canary-new-" + "n" * 30
FROM_MS = 1_796_083_200_000  # 2026-12-01T00:00:00Z
AT = "2026-12-01T00:00:00Z"


def proof(secret: str = NEW, topic: str = TOPIC, **more: str) -> Proof:
    names = {"accepted": ACCEPTED, "since": FROM}
    found = Proof.of({SECRET: secret, FROM: AT, **{names[name]: text for name, text in more.items()}}, topic)
    assert found is not None
    return found


def run(kind: str = DAG_RUN_SUCCEEDED, **more: Any) -> Event:
    return Event.of(
        kind, "/prod/ledger", id="r1", subject="ledger", data={"rows": 1}, ds="2026-12-01", **more
    )


def read(event: Event) -> Event:
    return decode(*encode(event))


def changed(event: Event, **attributes: str) -> Event:
    return Event({**event.attributes, **attributes}, event.data)


PROOF = proof()


@pytest.mark.parametrize("kind", [*EMITTED, "interlock.", "interlock.anything", TYPE])
def test_an_event_of_interlocks_own_types_needs_a_proof(kind: str) -> None:
    with pytest.raises(EventError, match=r"only with a proof of its emitters .*interlock\.proof\.secret"):
        PROOF.check(read(run(kind)), FROM_MS)
    PROOF.check(read(PROOF.signed(run(kind))), FROM_MS)


@pytest.mark.parametrize("kind", ["com.shop.orders.done", "interlockx", "interlock", "INTERLOCK.airflow"])
def test_an_event_of_another_type_gets_no_proof_and_needs_none(kind: str) -> None:
    event = run(kind)
    assert PROOF.signed(event) is event
    PROOF.check(event, FROM_MS)
    PROOF.check(changed(event, interlockproof="anything"), FROM_MS)


def test_records_from_before_the_time_need_no_proof() -> None:
    PROOF.check(run(), FROM_MS - 1)


def test_without_a_time_events_are_signed_and_none_needs_it() -> None:
    only_secret = Proof.of({SECRET: NEW}, TOPIC)
    assert only_secret is not None
    only_secret.check(run(), FROM_MS)
    PROOF.check(only_secret.signed(run()), FROM_MS)


def test_a_connection_without_these_settings_has_no_proof() -> None:
    assert Proof.of({"bootstrap.servers": "a:1"}, TOPIC) is None


def test_the_proof_is_what_the_page_says() -> None:
    event = Event.of(DAG_RUN_SUCCEEDED, "/prod/ledger", id="r1", subject="Köln", data=b"\x00{}")
    lines = ["bank-event", "id=r1", "source=/prod/ledger", "specversion=1.0", "subject=Köln"]
    text = "\n".join([*lines, "type=interlock.airflow.dag_run.succeeded"]).encode() + b"\0\0{}"

    def mac(message: bytes) -> str:
        return hmac.new(NEW.encode(), message, hashlib.sha256).hexdigest()

    expected = f"1.{mac(b'interlock proof 1: key id')[:8]}.{mac(text)}"
    assert PROOF.signed(event).attributes["interlockproof"] == expected


CHANGES: dict[str, Any] = {
    "another subject": lambda e: changed(e, subject="payments"),
    "another source": lambda e: changed(e, source="/prod/payments"),
    "another id": lambda e: changed(e, id="r2"),
    "another time": lambda e: changed(e, time="2026-12-02T00:00:00Z"),
    "another own type": lambda e: changed(e, type="interlock.airflow.dag_run.failed"),
    "another extension": lambda e: changed(e, ds="2026-12-02"),
    "one more extension": lambda e: changed(e, more=""),
    "an extension less": lambda e: Event({k: v for k, v in e.attributes.items() if k != "ds"}, e.data),
    "another content type": lambda e: changed(e, datacontenttype="text/plain"),
    "other data": lambda e: Event(e.attributes, b'{"rows": 2}'),
    "no data": lambda e: Event(e.attributes),
    "a mac of other length": lambda e: changed(e, interlockproof=e.attributes["interlockproof"][:-1]),
    "upper case": lambda e: changed(e, interlockproof=e.attributes["interlockproof"].upper()),
    "text that is not ASCII": lambda e: changed(e, interlockproof=e.attributes["interlockproof"][:-1] + "é"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_event_that_was_changed_is_refused(change: str) -> None:
    event = CHANGES[change](PROOF.signed(run()))
    with pytest.raises(EventError, match=r"is not valid: the event was changed|does not accept"):
        PROOF.check(read(event), FROM_MS)


def test_an_event_of_another_bus_with_the_same_secret_is_refused() -> None:
    with pytest.raises(EventError, match="made for another topic than bank-event"):
        PROOF.check(proof(topic="test-event").signed(run()), FROM_MS)


@pytest.mark.parametrize("given", ["", ".", "1", "1.", "1..", "2", "x" * 5000, "\N{SNOWMAN}.é.ü"])
def test_a_proof_of_another_form_is_refused(given: str) -> None:
    with pytest.raises(EventError, match="does not accept") as caught:
        PROOF.check(read(changed(run(), interlockproof=given)), FROM_MS)
    assert len(str(caught.value)) < 400


def test_a_proof_of_a_later_version_is_refused() -> None:
    event = PROOF.signed(run())
    later = "2" + event.attributes["interlockproof"][1:]
    with pytest.raises(EventError, match="does not accept"):
        PROOF.check(changed(event, interlockproof=later), FROM_MS)


def test_a_secret_is_changed_in_three_steps_without_a_refused_event() -> None:
    steps = [proof(OLD), proof(OLD, accepted=NEW), proof(NEW, accepted=OLD)]
    for emitter in steps:
        for reader in steps:
            if abs(steps.index(emitter) - steps.index(reader)) < 2:
                reader.check(emitter.signed(run()), FROM_MS)
    with pytest.raises(EventError, match=r"does not accept: .* set interlock\.proof\.secret\.accepted"):
        proof(NEW).check(proof(OLD).signed(run()), FROM_MS)


def test_signing_again_gives_the_same_event() -> None:
    """A receiver signs an event that a Spark job has signed; an emitter sends one again."""
    once = PROOF.signed(run())
    assert PROOF.signed(once) == once


@given(
    data=st.none() | st.binary(),
    subject=st.none() | st.text(min_size=1),
    content=st.none()
    | st.sampled_from(["text/plain", "application/json", "application/cloudevents+json", "a/b", "image/png"]),
    whole=st.none() | st.booleans() | st.integers(-(2**31), 2**31 - 1),
)
def test_what_an_emitter_signs_is_accepted_from_its_record(
    data: bytes | None, subject: str | None, content: str | None, whole: int | None
) -> None:
    try:
        event = Event.of(
            DAG_RUN_SUCCEEDED, "/a", subject=subject, data=data, datacontenttype=content, whole=whole
        )
        found = read(PROOF.signed(event))
    except EventError:  # no event at all, or not one that a record can hold
        return
    PROOF.check(found, FROM_MS)


CUT_ELSEWHERE: dict[str, tuple[dict[str, str], bytes, dict[str, str], bytes]] = {
    "between two attributes": ({"a": "1", "b": "2"}, b"", {"a": "1b=2"}, b""),
    "between name and value": ({"ab": "1"}, b"", {"a": "b1"}, b""),
    "between attributes and data": ({"z": "12"}, b"3", {"z": "1"}, b"23"),
}


@pytest.mark.parametrize("case", CUT_ELSEWHERE)
def test_texts_that_could_be_cut_elsewhere_have_different_proofs(case: str) -> None:
    names, data, others, other = CUT_ELSEWHERE[case]
    base = {"specversion": "1.0", "id": "1", "source": "/a", "type": DAG_RUN_SUCCEEDED}
    given, forged = PROOF.signed(Event({**base, **names}, data)), Event({**base, **others}, other)
    with pytest.raises(EventError, match="is not valid"):
        PROOF.check(changed(forged, interlockproof=given.attributes["interlockproof"]), FROM_MS)


WRONG: dict[str, tuple[dict[str, object], str]] = {
    "short": ({SECRET: "canary" * 5}, "interlock.proof.secret is not usable"),
    "with a blank": ({SECRET: "canary " * 6}, "interlock.proof.secret is not usable"),
    "with a line end": ({SECRET: NEW + "\n"}, "interlock.proof.secret is not usable"),
    "not ASCII": ({SECRET: "canäry" * 9}, "interlock.proof.secret is not usable"),
    "a number": ({SECRET: 10**40}, "interlock.proof.secret is not usable"),
    "too long": ({SECRET: "canary" * 99}, "interlock.proof.secret is not usable"),
    "a short second one": ({SECRET: NEW, ACCEPTED: "canary"}, "secret.accepted is not usable"),
    "only the second one": ({ACCEPTED: OLD}, "secret.accepted is set without interlock.proof.secret"),
    "only the time": ({FROM: AT}, "interlock.proof.from is set without interlock.proof.secret"),
    "no zone": ({SECRET: NEW, FROM: "2026-12-01T00:00:00"}, "interlock.proof.from is '2026-12-01T00:00:00'"),
    "a number as time": ({SECRET: NEW, FROM: 7}, "interlock.proof.from is 7"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_setting_is_refused_by_name_and_without_secrets(case: str) -> None:
    client, message = WRONG[case]
    with pytest.raises(ProofError) as caught:
        Proof.of(client, TOPIC)
    assert message in str(caught.value)
    assert "can" not in str(caught.value)


def test_repr_and_reasons_show_no_secret() -> None:
    shown = repr(PROOF)
    for event in (run(), changed(PROOF.signed(run()), id="r2"), proof(OLD).signed(run())):
        with pytest.raises(EventError) as caught:
            PROOF.check(event, FROM_MS)
        shown += str(caught.value)
    assert "canary" not in shown


def test_sparks_workers_get_it_by_pickle() -> None:
    copy = pickle.loads(pickle.dumps(PROOF))  # our own
    copy.check(PROOF.signed(run()), FROM_MS)
    with pytest.raises(EventError):
        copy.check(run(), FROM_MS)


def test_the_kafka_client_gets_none_of_these_settings() -> None:
    client = {"bootstrap.servers": "a:1", SECRET: NEW, ACCEPTED: OLD, FROM: AT}
    assert without_proof(client) == {"bootstrap.servers": "a:1"}
