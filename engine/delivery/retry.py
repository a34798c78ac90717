"""When a delivery that failed is tried again, and when it is given up."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import msgspec

Seconds = Annotated[float, msgspec.Meta(ge=0, le=30 * 86_400)]

# The action topic keeps firings for 30 days. One that is still open then would be removed without a trace.
MOST_GIVE_UP_AFTER_S: Final = 29 * 86_400.0
MOST_TRIES: Final = 1_000_000  # that an author may give


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How a sink's deliveries are tried again. The names follow Knative's delivery specification.

    Delays: `delay_s` before the first retry; then `delay_s * 2**n` (exponential) or `delay_s * (n + 1)`
    (linear) before the retry after n others, at most `most_delay_s`, less a random part of at most `jitter`
    (0 to 1). `retry_after_most_s`: the most that a sink's Retry-After may ask for; 0 ignores it.

    A firing is given up when either holds:

    - `tries` deliveries of it have failed (None: no such limit). Knative's `retry` is one less.
    - it fired `give_up_after_s` ago, and its present owner has seen `least_tries` deliveries fail. So a
      process that was down for two days tries before it gives up.

    `timeout_s`: of one delivery, from the connection to the end of the answer.
    """

    backoff: Literal["exponential", "linear"] = "exponential"
    delay_s: Seconds = 0.2
    most_delay_s: Seconds = 300.0
    jitter: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.5
    retry_after_most_s: Seconds = 3600.0
    timeout_s: Annotated[float, msgspec.Meta(gt=0, le=3600)] = 30.0
    tries: Annotated[int, msgspec.Meta(ge=1)] | None = None
    give_up_after_s: Annotated[float, msgspec.Meta(gt=0, le=MOST_GIVE_UP_AFTER_S)] = 86_400.0
    least_tries: Annotated[int, msgspec.Meta(ge=1)] = 3

    def delay(self, failed: int, chance: float, retry_after_s: float | None = None) -> float:
        """Seconds until the next try, after `failed` failures in a row. chance: random, in [0, 1).

        Never less than the sink's Retry-After, or `retry_after_most_s` if that is less.
        """
        retries = max(failed, 1) - 1
        if self.backoff == "linear":
            delay = self.delay_s * (retries + 1)
        else:
            delay = self.delay_s * 2.0 ** min(retries, 60)
        delay = min(delay, self.most_delay_s) * (1 - self.jitter * chance)
        return max(delay, min(retry_after_s or 0.0, self.retry_after_most_s))

    def is_exhausted(self, failed: int, seen_failing: int, age_s: float) -> bool:
        """Whether a firing is given up.

        failed: its own failed deliveries. seen_failing: these, and failures of the whole sink while it
        waited.
        """
        if self.tries is not None and failed >= self.tries:
            return True
        return age_s >= self.give_up_after_s and seen_failing >= self.least_tries
