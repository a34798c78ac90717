"""What Airflow stores of a trigger."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.triggers.base import BaseTrigger


def serialized(trigger: BaseTrigger, **other: Any) -> tuple[str, dict[str, Any]]:
    """Returns the path of a trigger's class, and the arguments of its constructor.

    Each argument is the attribute of its name, unless `other` has another value for it.
    """
    kind = type(trigger)
    arguments = {name: getattr(trigger, name) for name in signature(kind).parameters}
    return f"{kind.__module__}.{kind.__qualname__}", {**arguments, **other}
