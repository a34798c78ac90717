"""Knative's delivery spec as a retry policy and options of a sink.

Rules: Knative's control-plane specification ("DeliverySpec", "Event Delivery") and its resource definitions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..engine.delivery.retry import MOST_GIVE_UP_AFTER_S, Retry
from ..events.attributes import kind, shown
from .errors import NotTranslated
from .fields import FieldNote, Members

_UNKNOWN: Final = "no field of Knative's delivery spec that is known here"
_DEFAULT: Final = Retry()
_MOST_RETRIES: Final = 2**31 - 1
_MOST_TRIES: Final = 1_000_000  # of deliver_dag
_MOST_TIMEOUT_S: Final = 3600.0
_MOST_DELAY_S: Final = 30 * 86_400.0
# Half of the limit, so that a firing is given up before retention removes it, even if no process ran for
# days.
_MOST_SCHEDULE_S: Final = MOST_GIVE_UP_AFTER_S / 2

_DEAD_LETTERS: Final = (
    "dead letters go to the bus's dead-letter topic, with the reason: see `airflow interlock dead-letters`."
    " To send them to a service, let a consumer of that topic do it"
)
_NO_RETRY: Final = (
    "not given. Knative then takes the default of its Brokers (10 retries, exponential, PT0.2S, as shipped)"
    " or none; here the default applies: a delivery is retried until the firing is a day old"
)
_NO_DELAY: Final = "not given: the default here is 0.2 s before the first retry"
_NO_POLICY: Final = "not given: exponential"


@dataclass(frozen=True)
class TranslatedDelivery:
    """What a delivery spec becomes.

    retry: arguments of `Retry` that differ from its defaults. format: of the request, None if none is wanted.
    left_out: fields without a counterpart. differs: fields whose meaning is not quite the same.
    """

    retry: Mapping[str, Any]
    format: Literal["binary", "json"] | None
    left_out: tuple[FieldNote, ...]
    differs: tuple[FieldNote, ...]

    @property
    def policy(self) -> Retry:
        return Retry(**self.retry)


def delivery(given: Members) -> TranslatedDelivery:
    """Returns what a delivery spec becomes. Raises NotTranslated for a value that Knative refuses too."""
    left_out, differs = list[FieldNote](), list[FieldNote]()
    is_given = bool(given)
    values: dict[str, Any] = {}
    retries = _retries(given)
    is_capped = "backoffMax" in given
    _backoff(given, values, differs)
    if retries is None:
        differs.append(FieldNote(given.field("retry") if is_given else given.path, _NO_RETRY))
    if (timeout := given.duration("timeout")) is not None:
        if timeout == 0:
            raise NotTranslated(given.field("timeout"), "it must be longer than 0")
        if timeout > _MOST_TIMEOUT_S:
            differs.append(FieldNote(given.field("timeout"), "at most an hour here"))
        values["timeout_s"] = min(timeout, _MOST_TIMEOUT_S)
    if (most := given.duration("retryAfterMax")) is not None:
        if most > _MOST_DELAY_S:
            differs.append(FieldNote(given.field("retryAfterMax"), "at most 30 days here"))
        values["retry_after_most_s"] = min(most, _MOST_DELAY_S)
    if retries is not None and retries >= _MOST_TRIES:
        differs.append(FieldNote(given.field("retry"), f"at most {_MOST_TRIES - 1} here"))
        retries = _MOST_TRIES - 1
    if retries is not None:
        # Without backoffMax the delays grow without a limit.
        grows = "delay_s" in values and not is_capped
        values |= _limits(retries, Retry(**values), grows, given.field("retry"), differs)
    form = _format(given)
    if given.take("deadLetterSink") is not None:
        left_out.append(FieldNote(given.field("deadLetterSink"), _DEAD_LETTERS))
    left_out += given.left({}, _UNKNOWN)
    changed = {name: value for name, value in values.items() if value != getattr(_DEFAULT, name)}
    return TranslatedDelivery(changed, form, tuple(left_out), tuple(differs))


def _retries(given: Members) -> int | None:
    value = given.take("retry")
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool):
        raise NotTranslated(given.field("retry"), f"it is {kind(value)}: it must be a whole number")
    if not 0 <= value <= _MOST_RETRIES:
        raise NotTranslated(given.field("retry"), f"{value} is not in 0 to {_MOST_RETRIES}")
    return value


def _backoff(given: Members, values: dict[str, Any], differs: list[FieldNote]) -> None:
    policy, delay = given.text("backoffPolicy"), given.duration("backoffDelay")
    if policy not in (None, "exponential", "linear"):
        raise NotTranslated(
            given.field("backoffPolicy"), f"{shown(policy)} is neither exponential nor linear"
        )
    if policy is not None:
        values["backoff"] = policy
        if delay is None:
            differs.append(FieldNote(given.field("backoffDelay"), _NO_DELAY))
    if policy == "linear":
        differs.append(
            FieldNote(
                given.field("backoffPolicy"),
                "the delay grows by backoffDelay with each retry, as in Knative's code; its specification"
                " says that it stays the same",
            )
        )
    if delay is not None:
        if delay > _MOST_DELAY_S:
            raise NotTranslated(given.field("backoffDelay"), "a delay has at most 30 days here")
        if policy is None:
            differs.append(FieldNote(given.field("backoffPolicy"), _NO_POLICY))
        # Knative adds no jitter to a delay.
        values |= {"delay_s": delay, "jitter": 0.0, "most_delay_s": max(delay, _DEFAULT.most_delay_s)}
    if (most := given.duration("backoffMax")) is not None:
        if most == 0:
            raise NotTranslated(given.field("backoffMax"), "it must be longer than 0")
        values["most_delay_s"] = min(most, _MOST_DELAY_S)
        if values.get("delay_s", _DEFAULT.delay_s) > most:  # deliver_dag refuses that
            values["delay_s"] = most


def _limits(retries: int, policy: Retry, grows: bool, path: str, differs: list[FieldNote]) -> dict[str, Any]:
    """Limits on tries and age that let a firing have all its retries before it is given up.

    grows: whether only the number of retries limits the delays.
    """
    found: dict[str, Any] = {"tries": retries + 1}
    most = policy.most_delay_s
    if grows and retries:
        factor = 2.0 ** min(retries - 1, 60) if policy.backoff == "exponential" else float(retries)
        most = found["most_delay_s"] = max(most, min(policy.delay_s * factor, _MOST_DELAY_S))
    schedule = _schedule_s(retries, policy, most)
    if schedule > _MOST_SCHEDULE_S:
        differs.append(
            FieldNote(
                path,
                f"{retries} retries with these delays may take more than {_MOST_SCHEDULE_S / 86_400:g} days;"
                " a firing is given up when it is 29 days old, because it is kept for 30",
            )
        )
        return {**found, "give_up_after_s": MOST_GIVE_UP_AFTER_S}
    give_up = max(schedule, _DEFAULT.give_up_after_s)
    return {**found, "give_up_after_s": give_up, "least_tries": retries + 1}


def _schedule_s(retries: int, policy: Retry, most: float) -> float:
    """The longest time that all deliveries of a firing take, with the delays between them."""
    total, delay, left = policy.timeout_s * (retries + 1), policy.delay_s, retries
    # Until the delay reaches its limit, at most 60 steps if it doubles.
    while left and delay < most and policy.backoff == "exponential" and delay > 0:
        total, delay, left = total + delay, delay * 2, left - 1
    if policy.backoff == "linear":
        growing = min(left, int(most / delay) if delay > 0 else left)
        total, left, delay = total + delay * growing * (growing + 1) / 2, left - growing, most
    return total + left * min(delay, most)


def _format(given: Members) -> Literal["binary", "json"] | None:
    text = given.text("format")
    if text not in (None, "json", "binary"):
        raise NotTranslated(given.field("format"), f"{shown(text)} is neither json nor binary")
    return "json" if text == "json" else "binary" if text == "binary" else None
