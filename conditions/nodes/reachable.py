"""Whether a condition can be met at all: one that certainly cannot is an error of the DAG file."""

from __future__ import annotations

from typing import Final

from ...events.attributes import find_problems
from ..errors import ConditionError
from ..filters.outcome import excluding, outcome
from ..filters.together import why_none_passes
from .condition import Condition, shortened
from .countable import check_counts
from .matcher import Matcher
from .mistaken_paths import check_paths
from .own_events import check_own_event
from .refuted import check_windows
from .shapes import check_keys_meet

_VALID: Final = {"specversion": "1.0", "id": "x", "source": "x", "type": "x"}


def check_can_be_met(condition: Condition) -> None:
    """Raises ConditionError for what no events can meet.

    That is: mistaken paths, filters that exclude each other, values that no event has, keys that are never
    equal (K39), more different values than one key has (Q9), a ~ that refutes its own window (E10), and an
    expiry that always comes first (X9).
    """
    check_paths(condition)
    for matcher in condition.matchers:
        _check_matcher(matcher)
    check_keys_meet(condition)
    check_counts(condition)
    check_windows(condition)


def _check_matcher(matcher: Matcher) -> None:
    check_own_event(matcher)
    known = dict(matcher.exact)
    # a plain record has the content type that its producer wrote
    checked = {name: value for name, value in known.items() if name != "datacontenttype" or "/" not in value}
    problems = find_problems({**_VALID, **checked})
    if problems:
        raise ConditionError(f"{shortened(matcher)} accepts no event: no valid event has it: {problems[0]}")
    terms = matcher.filters if matcher.where is None else (*matcher.filters, matcher.where)
    for term in terms:
        if outcome(term, known) is False:
            raise ConditionError(
                f"{shortened(matcher)} accepts no event: {str(term)[:200]} refuses every event with its exact"
                " values"
            )
    if (pair := excluding(matcher.filters)) is not None:
        raise ConditionError(
            f"{shortened(matcher)} accepts no event: {pair[0]} and {pair[1]} exclude each other: join them in"
            " Any(), or leave one out"
        )
    if (reason := why_none_passes(known, matcher.filters)) is not None:
        raise ConditionError(f"{shortened(matcher)} accepts no event: of its filters, {reason}")
