"""A test of an invariant, and its proof: it fails when the rule it stands for is taken out of the code."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from interlock.engine.protocol.parts import EngineParts

from tests.kit.made_of import REAL, MadeOf

Patch = pytest.MonkeyPatch
Check: TypeAlias = Callable[..., None]
Rule: TypeAlias = Callable[[Patch], None]

_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Without:
    """A rule of the engines, and the classes of engines without it."""

    rule: str
    made_of: MadeOf


def without(rule: str, **parts: Any) -> Without:
    """A rule, and these parts for engines that lack it."""
    return Without(rule, MadeOf(parts=EngineParts(**parts)))


class NeverRaised(BaseException):
    """Replaces the exceptions of an `except` clause, which then catches nothing."""


def needs(*rules: Without | Rule) -> Callable[[Check], Callable[..., None]]:
    """Runs the decorated check with all rules, and once without each: then its own assertion must fail.

    A rule is a `Without`, for a check that makes its engines and waits of its argument `made_of`; or a
    function that patches public names, so that the rule after which it is named no longer holds.
    """

    def decorate(check: Check) -> Callable[..., None]:
        takes_made_of = "made_of" in inspect.signature(check).parameters

        def run(made_of: MadeOf = REAL) -> None:
            given: dict[str, Any] = {"made_of": made_of} if takes_made_of else {}
            check(**given)

        def test(without: Without | Rule | None, monkeypatch: Patch) -> None:
            if without is None:
                run()
                return
            made_of = REAL
            if isinstance(without, Without):
                assert takes_made_of, f"{check.__name__} takes no `made_of`"
                made_of = without.made_of
            else:
                without(monkeypatch)
            with pytest.raises(AssertionError) as failed:
                run(made_of)
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
    """Turns every exception inside into a failed assertion: `what` must continue.

    Not a TypeError: most likely planted code does not fit what it replaces, and nothing was checked.
    """
    try:
        yield
    except (AssertionError, TypeError, pytest.fail.Exception):
        raise
    except (Exception, NeverRaised) as e:
        raise AssertionError(f"{what} was ended by {type(e).__name__}: {e}") from e


def _words(rule: Without | Rule) -> str:
    return rule.rule if isinstance(rule, Without) else rule.__name__.strip("_").replace("_", " ")
