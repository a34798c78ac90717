"""The name of a wrapped application, and the hooks around the sessions that it creates."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from interlock.spark.completion import job_wrapper
from interlock.spark.completion.application import Application
from interlock.spark.completion.job_wrapper import name_of, rename


class Properties(dict[str, str]):
    """The JVM's system properties."""

    def getProperty(self, name: str) -> str | None:  # noqa: N802
        return self.get(name)

    def setProperty(self, name: str, value: str) -> None:  # noqa: N802
        self[name] = value


@pytest.mark.parametrize(
    ("given", "expected"),
    [("__main__.py", "orders.py"), ("daily orders", "daily orders"), ("other.py", "other.py"), (None, None)],
)
def test_an_application_without_a_name_is_named_after_the_job_and_not_the_wrapper(
    given: str | None, expected: str | None
) -> None:
    """Regression: a wrapped job without --name was called __main__.py."""
    properties = Properties() if given is None else Properties({"spark.app.name": given})
    rename(properties, "orders.py")
    assert properties.getProperty("spark.app.name") == expected


@pytest.mark.parametrize(
    ("configuration", "name"),
    [
        ({}, "orders.py"),
        ({"spark.app.name": "__main__.py"}, "orders.py"),
        ({"spark.app.name": "daily orders"}, "daily orders"),
        ({"spark.app.name": "__main__.py", "spark.interlock.name": "orders"}, "orders"),
        ({"spark.interlock.name": "orders"}, "orders"),
    ],
)
def test_the_subject_is_the_given_name_else_the_applications(
    configuration: dict[str, str], name: str
) -> None:
    assert name_of(configuration, "orders.py") == name


@pytest.mark.parametrize("error", [ConnectionRefusedError("py4j does not answer"), RuntimeError("no JVM")])
def test_a_job_gets_its_session_although_nothing_can_listen_to_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    class Session:
        """A session of which a job creates one."""

    def refuse(_: object) -> None:
        raise error

    monkeypatch.setattr(job_wrapper, "describe", lambda *_: Application("local-1", "orders"))
    settings = {"spark.interlock.bootstrap.servers": "broker:9092"}
    monkeypatch.setattr(job_wrapper, "configuration_of", lambda _: settings)
    monkeypatch.setattr(job_wrapper, "Tracker", lambda *_: SimpleNamespace(listen=refuse))
    made: Any = job_wrapper._JobTracker("orders.py").session_made
    monkeypatch.setattr(Session, "__init__", job_wrapper._with_callback(Session.__init__, made))
    Session()
    assert f"no events for queries of this session: {error}" in caplog.text
