"""What a completion event says about a failure, for the log of the task that waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

_MOST_CHARS: Final = 500  # of each part: anybody with a right to write may choose the text


def details(form: Mapping[str, Any]) -> str:
    """Returns what failed, from an event's JSON form; "" if the event does not say.

    For a Spark application: its error, and the Airflow task that submitted it. For a DAG run or a task
    instance: which one it is.
    """
    data = form.get("data")
    if not isinstance(data, Mapping):  # too large for the firing, or of another producer
        return ""
    return "; ".join((*_error(data), *_task(data.get("airflow")), *_task(data)))


def _error(data: Mapping[str, Any]) -> Iterator[str]:
    error = data.get("error")
    if isinstance(error, Mapping) and error.get("class"):
        message = error.get("message")
        yield _short(f"{error['class']}: {message}" if message else error["class"])


def _task(names: object) -> Iterator[str]:
    if not isinstance(names, Mapping) or not names.get("dag_id"):
        return
    task, index, number = names.get("task_id"), names.get("map_index"), names.get("try_number")
    text = f"Airflow task {names['dag_id']}.{task}" if task else f"DAG {names['dag_id']}"
    if task and isinstance(index, int) and index >= 0:
        text += f" [{index}]"
    if names.get("run_id"):
        text += f", run {names['run_id']}"
    if task and number is not None:
        text += f", try {number}"
    yield _short(text)


def _short(text: object) -> str:
    plain = str(text)
    return plain if len(plain) <= _MOST_CHARS else plain[: _MOST_CHARS - 1] + "…"
