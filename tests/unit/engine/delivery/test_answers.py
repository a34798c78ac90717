"""What a sink's answer means: the table of docs/understand/engine/sinks.md."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.engine.delivery.answers import Answer, Verdict, retry_after

RETRIED, DENIED = {404, 408, 409, 429}, {401, 403, 407, 410}
NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
NOW_MS = int(NOW.timestamp() * 1000)


def verdict(status: int) -> Verdict:
    if 200 <= status < 300:
        return Verdict.DELIVERED
    if status in RETRIED or status < 100 or status >= 500:
        return Verdict.RETRY
    return Verdict.DENIED if status in DENIED else Verdict.REFUSED


def test_each_status_has_its_verdict() -> None:
    assert [status for status in range(1000) if Answer(status).verdict is not verdict(status)] == []


def test_without_an_answer_it_is_retried_and_without_a_connection_the_sink_is_unreachable() -> None:
    assert Answer(None, "timeout").verdict is Verdict.RETRY
    assert Answer(None, "connection refused", connected=False).verdict is Verdict.UNREACHABLE


def test_congestion_is_429_503_and_a_request_without_an_answer() -> None:
    assert {status for status in range(100, 600) if Answer(status).is_congestion} == {429, 503}
    assert Answer(None, "timeout").is_congestion
    assert not Answer(None, "no such host", connected=False).is_congestion


def test_a_ruling_of_our_own_counts_instead_of_the_status() -> None:
    malformed = Answer(200, "its reply is no event", ruling=Verdict.RETRY)
    assert (malformed.verdict, malformed.is_congestion) == (Verdict.RETRY, False)
    assert str(malformed) == "HTTP 200, its reply is no event"
    gone = Answer(None, "its data are gone", ruling=Verdict.REFUSED)
    assert (gone.verdict, gone.is_congestion, str(gone)) == (Verdict.REFUSED, False, "its data are gone")


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("120", 120),
        ("0", 0),
        (" 7\t", 7),
        ("Thu, 26 Nov 2026 12:02:00 GMT", 120),
        ("Thursday, 26-Nov-26 12:02:00 GMT", 120),
        ("Thu Nov 26 12:02:00 2026", 120),
        ("Thu, 26 Nov 2026 11:00:00 GMT", 0),
        ("Thu, 26 Nov 2026 14:02:00 +0200", 120),
        (None, None),
        ("", None),
        ("-1", None),
        ("1.5", None),
        ("soon", None),
        ("١٢", None),
        ("9" * 20, 1e20),
        ("1" * 400, float("inf")),
        ("Thu, 99 Nov 2026 12:02:00 GMT", None),
        ("26 Nov 99999999999 12:02:00 GMT", None),
    ],
)
def test_a_retry_after_in_seconds_or_as_a_date_is_read(header: str | None, seconds: float | None) -> None:
    assert retry_after(header, NOW_MS) == seconds


@given(st.text() | st.text("0123456789 ,:-+GMTNovhu"))
def test_no_text_fails_or_gives_a_time_in_the_past(header: str) -> None:
    found = retry_after(header, NOW_MS)
    assert found is None or found >= 0


@given(st.timedeltas(timedelta(0), timedelta(days=365)))
def test_a_date_is_the_time_until_then(until: timedelta) -> None:
    until = timedelta(seconds=int(until.total_seconds()))
    header = format_datetime(NOW + until, usegmt=True)
    assert retry_after(header, NOW_MS) == until.total_seconds()
