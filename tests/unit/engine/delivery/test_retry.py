"""Delays between deliveries, and giving up."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from interlock.engine.delivery.retry import Retry

CERTAIN = Retry(jitter=0)
LINEAR = Retry(backoff="linear", jitter=0)


def test_exponential_delays_double_up_to_the_limit() -> None:
    delays = [CERTAIN.delay(failed, 0.5) for failed in (1, 2, 3, 11, 12, 2000)]
    assert delays == pytest.approx([0.2, 0.4, 0.8, 204.8, 300, 300])


def test_linear_delays_grow_by_the_first_delay() -> None:
    assert [LINEAR.delay(failed, 0.5) for failed in (1, 2, 3)] == pytest.approx([0.2, 0.4, 0.6])
    assert LINEAR.delay(10**6, 0.5) == 300


retries = st.builds(
    Retry,
    backoff=st.sampled_from(["exponential", "linear"]),
    delay_s=st.floats(0, 1000),
    most_delay_s=st.floats(0, 1000),
    jitter=st.floats(0, 1),
    retry_after_most_s=st.floats(0, 1000),
)


@given(retries, st.integers(0, 10**9), st.floats(0, 1, exclude_max=True), st.floats(0, 1e12) | st.none())
def test_a_delay_is_within_its_bounds_and_not_below_the_retry_after_that_is_followed(
    retry: Retry, failed: int, chance: float, after: float | None
) -> None:
    delay = retry.delay(failed, chance, after)
    followed = min(after or 0, retry.retry_after_most_s)
    assert followed <= delay <= max(followed, retry.most_delay_s)
    assert delay >= msgspec.structs.replace(retry, jitter=0).delay(failed, 0) * (1 - retry.jitter) * 0.999


@given(retries, st.integers(1, 1000))
def test_a_later_retry_never_comes_sooner_but_for_its_jitter(retry: Retry, failed: int) -> None:
    without = msgspec.structs.replace(retry, jitter=0)
    assert without.delay(failed + 1, 0) >= without.delay(failed, 0)


def test_a_retry_after_of_days_is_followed_up_to_the_limit_and_0_ignores_it() -> None:
    assert CERTAIN.delay(1, 0, 10**6) == 3600
    assert Retry(jitter=0, retry_after_most_s=0).delay(1, 0, 10**6) == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("failed", "seen", "age_s", "over"),
    [
        pytest.param(2, 2, 90_000, False, id="old, but hardly tried by this owner"),
        pytest.param(3, 3, 80_000, False, id="tried, but not old"),
        pytest.param(3, 3, 86_400, True, id="old and tried"),
        pytest.param(0, 3, 90_000, True, id="old, and the sink failed while it waited"),
    ],
)
def test_a_firing_is_given_up_when_it_is_old_and_failures_were_seen(
    failed: int, seen: int, age_s: float, over: bool
) -> None:
    assert Retry().is_exhausted(failed, seen, age_s) is over


def test_a_limit_of_tries_counts_those_of_the_firing_alone_whatever_its_age() -> None:
    assert Retry(tries=2).is_exhausted(2, 2, 0)
    assert not Retry(tries=2).is_exhausted(1, 100, 0)


@pytest.mark.parametrize(
    "wrong",
    [
        {"give_up_after_s": 30 * 86_400},
        {"tries": 0},
        {"jitter": 1.5},
        {"timeout_s": 0},
        {"backoff": "random"},
    ],
    ids=str,
)
def test_a_policy_that_could_lose_firings_or_makes_no_sense_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(wrong, Retry)
