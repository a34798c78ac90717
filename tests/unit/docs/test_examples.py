"""The Python examples of README and docs that need no broker run as they stand."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser
from airflow.sdk import DAG
from interlock import Event
from interlock.events import http
from interlock.testing import wait_of

ROOT = Path(__file__).parents[3]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
# What needs a broker or Spark runs in tests/integration/docs.
ELSEWHERE = ("Emitter(", "completion_event(", "Producer(")


def posted(command: str) -> list[Event]:
    """The events of a curl command that posts to the receiver."""
    given = iter(shlex.split(command.replace("\\\n", " "))[1:])
    headers, body = [], b""
    for each in given:
        if each == "-H":
            name, _, value = next(given).partition(": ")
            headers.append((name.lower().encode(), value.encode()))
        elif each == "--json":
            headers.append((b"content-type", b"application/json"))
            body = next(given).encode()
        else:
            assert each == "http://127.0.0.1:8085/events"
    return http.decode(headers, body)


def blocks() -> list[Any]:
    """Each ```python block, under the name of its page and line."""
    found = []
    for page in PAGES:
        text = page.read_text()
        for match in re.finditer(r"```python\n(.*?)```", text, re.DOTALL):
            if not any(word in match[1] for word in ELSEWHERE):
                line = text.count("\n", 0, match.start()) + 1
                found.append(pytest.param(match[1], id=f"{page.relative_to(ROOT)}:{line}"))
    return found


@pytest.mark.parametrize("source", blocks())
def test_an_example_runs_as_it_stands(source: str) -> None:
    with DAG("around_the_example", schedule=None):  # for tasks that stand alone on the page
        exec(compile(source, "example", "exec"), {"__name__": "example"})


def commands() -> list[Any]:
    """Each line of a block that calls airflow, but for synopses, which have options in brackets."""
    found = []
    for page in PAGES:
        for block in re.findall(r"^```(?:bash)?\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE):
            lines = block.replace("\\\n", " ").splitlines()
            found += [
                pytest.param(line, id=f"{page.relative_to(ROOT)}: {' '.join(line.split()[:4])}")
                for line in lines
                if line.startswith("airflow ") and "[--" not in line
            ]
    return found


@pytest.mark.parametrize("line", commands())
def test_a_command_of_a_page_exists_and_takes_these_arguments(line: str) -> None:
    command = re.split(r" [>|&] ", line)[0]
    get_parser().parse_args(shlex.split(command, comments=True)[1:])


def test_the_first_dag_of_the_readme_waits_for_both_and_reports_then() -> None:
    source = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[0]
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(source, "README", "exec"), names)
    ready = names["ready"]
    assert list(ready.condition.labels) == ["orders", "rates"]
    assert ready.downstream_task_ids == {"report"}


def test_the_commands_of_the_readme_exist_and_what_they_send_ends_the_wait_of_its_first_dag() -> None:
    text = (ROOT / "README.md").read_text()
    names: dict[str, Any] = {"__name__": "example"}
    exec(compile(re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0], "README", "exec"), names)
    lines = re.search(r"```\n(airflow dags .*?)```", text, re.DOTALL)
    assert lines is not None
    commands = [shlex.split(line, comments=True)[1:] for line in lines[1].splitlines()]
    # The database gets a new DAG file when it is parsed; `dags unpause` finds nothing before.
    assert commands[:2] == [["dags", "reserialize"], ["dags", "unpause", "daily_report"]]
    asked = [get_parser().parse_args(command) for command in commands]
    [run] = [each for each in asked if hasattr(each, "logical_date")]
    at = run.logical_date
    emitted = [
        Event.of(each.type, "/airflow/cli", subject=each.subject, time=at, data=json.loads(each.data))
        for each in asked
        if each.subcommand == "emit"
    ]
    served = re.search(r"```\n(airflow interlock receiver.*?)\n(curl .*?)```", text, re.DOTALL)
    assert served is not None
    get_parser().parse_args(shlex.split(served[1], comments=True)[1:])
    sent = [*emitted, *((each, at) for each in posted(served[2]))]
    ready = wait_of(names["ready"].dag, "ready", logical_date=at)
    assert [ready.given(sent[:n]).state for n in (0, 1, 2)] == ["deferred", "deferred", "success"]
    output = ready.given(sent).output
    assert output is not None
    assert output["events"]["orders"][0]["data"]["output"] == "/data/orders"


@pytest.mark.parametrize(
    "page",
    [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text())
    missing = [target for target in targets if not (page.parent / target).exists()]
    assert missing == []
