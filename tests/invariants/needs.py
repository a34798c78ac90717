"""A test of an invariant, and its proof: it fails when the rule it stands for is taken out of the code."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import pytest

Patch = pytest.MonkeyPatch
Check: TypeAlias = Callable[[], None]
Rule: TypeAlias = Callable[[Patch], None]

_HERE = Path(__file__).parent


class NeverRaised(BaseException):
    """Stands in an `except` clause for what it should catch: the clause is as good as gone."""


def needs(*rules: Rule) -> Callable[[Check], Callable[..., None]]:
    """The decorated check runs as it is, and once without each rule: then it must fail, by its own assertion.

    A rule is a function that patches the code so that the rule it is named after does not hold any more.
    """

    def decorate(check: Check) -> Callable[..., None]:
        def test(without: Rule | None, monkeypatch: Patch) -> None:
            if without is None:
                check()
                return
            without(monkeypatch)
            with pytest.raises(AssertionError) as failed:
                check()
            where = Path(str(failed.traceback[-1].path))
            assert where.parent == _HERE, f"it is not the check that fails, but {where}: {failed.value}"

        # not functools.wraps: pytest would look for the arguments of the check
        test.__name__, test.__qualname__ = check.__name__, check.__qualname__
        test.__module__, test.__doc__ = check.__module__, check.__doc__
        cases = [pytest.param(None, id="holds")]
        cases += [pytest.param(rule, id="fails without " + _words(rule)) for rule in rules]
        marked: Callable[..., None] = pytest.mark.parametrize("without", cases)(test)
        return marked

    return decorate


@contextmanager
def unharmed(what: str) -> Iterator[None]:
    """Whatever is raised inside, but a failed assertion, is a failure of the check: `what` must go on."""
    try:
        yield
    except (AssertionError, pytest.fail.Exception):
        raise
    except (Exception, NeverRaised) as e:
        raise AssertionError(f"{what} was ended by {type(e).__name__}: {e}") from e


def _words(rule: Rule) -> str:
    return rule.__name__.strip("_").replace("_", " ")
