"""A delivery spec becomes a retry policy under which Knative's retries take place, at Knative's times."""

from __future__ import annotations

from typing import Any

import pytest
from interlock.engine.delivery.retry import Retry
from interlock.migrate.errors import NotTranslated
from interlock.migrate.fields import Members, seconds
from interlock.migrate.knative_delivery import TranslatedDelivery, delivery

DAY = 86_400.0


def read(**given: Any) -> TranslatedDelivery:
    return delivery(Members(given, "delivery"))


def delays(policy: Retry, retries: int) -> list[float]:
    """Before each retry, for any chance."""
    found = [policy.delay(failed, 0.9) for failed in range(1, retries + 1)]
    assert found == [policy.delay(failed, 0.0) for failed in range(1, retries + 1)]
    return found


def given_up_after(policy: Retry, age_s: float) -> int:
    """The failures after which a firing of this age is given up."""
    return next(failed for failed in range(1, 10_000) if policy.is_exhausted(failed, failed, age_s))


def test_retries_are_one_less_than_tries() -> None:
    assert read(retry=3).policy.tries == 4
    assert read(retry=0).policy.tries == 1


def test_exponential_delays_double_and_are_not_left_to_chance() -> None:
    found = read(retry=14, backoffPolicy="exponential", backoffDelay="PT0.2S").policy
    assert delays(found, 14) == pytest.approx([0.2 * 2**n for n in range(14)])


def test_linear_delays_grow_by_the_delay() -> None:
    found = read(retry=40, backoffPolicy="linear", backoffDelay="PT30S")
    assert delays(found.policy, 40) == pytest.approx([30.0 * n for n in range(1, 41)])
    assert "its specification" in dict(found.differs)["delivery.backoffPolicy"]


@pytest.mark.parametrize("policy", ["exponential", "linear"])
def test_delays_grow_up_to_the_limit_that_is_given(policy: str) -> None:
    """knative/eventing#9278: without it, 20 retries from 1 s on take weeks; the field was left out."""
    found = read(retry=20, backoffPolicy=policy, backoffDelay="PT1S", backoffMax="PT5S")
    assert not found.left_out
    assert found.policy.tries == 21
    assert delays(found.policy, 20)[-10:] == [5.0] * 10
    less = read(retry=2, backoffPolicy=policy, backoffDelay="PT10S", backoffMax="PT5S").policy
    assert (less.delay_s, delays(less, 2)) == (5.0, [5.0, 5.0])
    assert read(backoffMax="PT0.1S").policy.delay_s == 0.1
    assert read(retry=1, backoffMax="P60D").policy.most_delay_s == 30 * DAY


def test_a_long_first_delay_is_not_cut_by_our_limit() -> None:
    assert delays(read(retry=1, backoffPolicy="exponential", backoffDelay="PT1H").policy, 1) == [3600.0]
    assert read(backoffPolicy="exponential", backoffDelay="PT1H").policy.delay(1, 0.9) == 3600.0


@pytest.mark.parametrize("retries", [0, 2, 10, 20])
@pytest.mark.parametrize("age_s", [0.0, 2 * DAY])
def test_a_firing_gets_its_retries_also_if_its_process_was_away(retries: int, age_s: float) -> None:
    found = read(retry=retries, backoffPolicy="exponential", backoffDelay="PT0.2S").policy
    assert given_up_after(found, age_s) == retries + 1


@pytest.mark.parametrize("policy", ["exponential", "linear"])
@pytest.mark.parametrize("retries", [1, 5, 12, 30])
@pytest.mark.parametrize("delay", ["PT0S", "PT1S", "PT10M", "P1D"])
def test_all_retries_fit_into_the_time_until_a_firing_is_given_up(
    policy: str, retries: int, delay: str
) -> None:
    found = read(retry=retries, backoffPolicy=policy, backoffDelay=delay, timeout="PT2M")
    made = found.policy
    schedule = sum(delays(made, retries)) + 120.0 * (retries + 1)
    if any("29 days" in note.text for note in found.differs):
        assert schedule > 14 * DAY
    else:
        assert made.give_up_after_s >= schedule
        assert made.least_tries == retries + 1


def test_retries_that_would_take_months_get_the_most_time_there_is_and_a_note() -> None:
    found = read(retry=2**31 - 1, backoffPolicy="exponential", backoffDelay="PT1S")
    assert found.policy.give_up_after_s == 29 * DAY
    assert found.policy.tries == 1_000_000
    assert [note.field for note in found.differs] == ["delivery.retry"] * 2
    assert "29 days" in found.differs[1].text
    assert found.policy.least_tries == Retry().least_tries


def test_timeout_and_retry_after_max() -> None:
    found = read(retry=1, timeout="PT5M", retryAfterMax="PT0S").policy
    assert (found.timeout_s, found.retry_after_most_s) == (300.0, 0.0)
    assert found.delay(1, 0.0, retry_after_s=60.0) == pytest.approx(0.2)
    assert read(retryAfterMax="P60D").policy.retry_after_most_s == 30 * DAY
    long = read(timeout="PT2H")
    assert long.policy.timeout_s == 3600.0
    assert dict(long.differs)["delivery.timeout"] == "at most an hour here"


def test_the_format_keeps_its_words() -> None:
    assert [read(format=each).format for each in ("json", "binary", None)] == ["json", "binary", None]


def test_a_dead_letter_sink_and_an_unknown_field_are_left_out_with_a_reason() -> None:
    found = dict(read(retry=1, deadLetterSink={"uri": "http://d"}, retries=4).left_out)
    assert set(found) == {"delivery.deadLetterSink", "delivery.retries"}
    assert "dead-letter topic" in found["delivery.deadLetterSink"]


def test_without_a_number_of_retries_the_default_applies_and_a_note_says_which() -> None:
    found = read()
    assert found.policy == Retry()
    assert "until the firing is a day old" in dict(found.differs)["delivery"]
    assert "delivery.retry" in dict(read(timeout="PT1S").differs)


def test_a_policy_without_a_delay_and_a_delay_without_a_policy_get_notes() -> None:
    assert "delivery.backoffDelay" in dict(read(retry=1, backoffPolicy="linear").differs)
    assert "delivery.backoffPolicy" in dict(read(retry=1, backoffDelay="PT1S").differs)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"retry": -1}, "retry"),
        ({"retry": "3"}, "retry"),
        ({"retry": True}, "retry"),
        ({"retry": 1.5}, "retry"),
        ({"retry": 2**31}, "retry"),
        ({"backoffPolicy": "quadratic"}, "backoffPolicy"),
        ({"backoffPolicy": "Linear"}, "backoffPolicy"),
        ({"backoffDelay": "5s"}, "backoffDelay"),
        ({"backoffDelay": 5}, "backoffDelay"),
        ({"backoffDelay": "-PT1S"}, "backoffDelay"),
        ({"backoffDelay": "P31D"}, "backoffDelay"),
        ({"backoffDelay": "P1M"}, "backoffDelay"),
        ({"backoffMax": "PT0S"}, "backoffMax"),
        ({"backoffMax": "5s"}, "backoffMax"),
        ({"timeout": "PT0S"}, "timeout"),
        ({"timeout": ""}, "timeout"),
        ({"retryAfterMax": "PT-5S"}, "retryAfterMax"),
        ({"format": "structured"}, "format"),
        ({"format": 1}, "format"),
    ],
    ids=str,
)
def test_a_value_that_knative_refuses_is_refused_by_its_field(given: Any, field: str) -> None:
    with pytest.raises(NotTranslated) as caught:
        read(**given)
    assert caught.value.field == f"delivery.{field}"


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("PT0.2S", 0.2), ("PT0,5S", 0.5), ("PT1M", 60), ("PT1H30M", 5400), ("P1D", DAY), ("P1DT1S", DAY + 1),
        ("P2W", 14 * DAY), ("PT0S", 0), ("PT0.5M", 30), ("P1W1D", 8 * DAY), ("PT1H0.5S", 3600.5),
        ("+PT1S", 1), ("P0", 0),
    ],
)  # fmt: skip
def test_a_duration_is_read(text: str, wanted: float) -> None:
    assert seconds(text, "x") == pytest.approx(wanted)


@pytest.mark.parametrize(
    "text",
    [
        "P",
        "PT",
        "",
        "1S",
        "PT1",
        "T1S",
        "P1Y",
        "P1S",
        "PT1D",
        "PT0.5H1M",
        "pt1s",
        "PT1S ",
        "PT٣S",
        "P1DT",
        "++PT1S",
        "P-1D",
    ],
)
def test_what_is_no_duration_of_a_fixed_length_is_refused(text: str) -> None:
    with pytest.raises(NotTranslated, match="ISO 8601"):
        seconds(text, "x")
