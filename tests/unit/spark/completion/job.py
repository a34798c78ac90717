"""Fakes of what a job with completion events uses: its session, the bus, and the end of its process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from interlock.events.event import Event
from interlock.spark.completion.process_exit import ProcessExit


class ClassicSession:
    """A fake of a classic SparkSession; after `stop` it raises, like a real one.

    tests/integration/spark listens to queries of a real one.
    """

    def __init__(self, conf: Mapping[str, str]) -> None:
        self._values: dict[str, str] | None = {"spark.interlock.events": "none", **conf}
        self.sparkContext = SimpleNamespace(
            applicationId=conf.get("spark.app.id"),
            appName=conf.get("spark.app.name"),
            version="4.0.0",
            startTime=1795201977353,
            sparkUser=lambda: "ada",
            getConf=lambda: self._values,
        )

    @property
    def conf(self) -> Any:
        """Of a Spark Connect session."""
        return SimpleNamespace(getAll=self._living())

    @property
    def _jsparkSession(self) -> Any:  # noqa: N802  # PySpark names it so
        """Of a classic session: the JVM's, with a Scala map."""
        lines = [f"{name} -> {value}" for name, value in self._living().items()]
        scala = SimpleNamespace(mkString=lambda between: between.join(lines))
        return SimpleNamespace(conf=lambda: SimpleNamespace(getAll=lambda: scala))

    def _living(self) -> dict[str, str]:
        if self._values is None:
            raise RuntimeError("the session is stopped")
        return self._values

    def stop(self) -> None:
        self._values = None


class Bus:
    """A fake of the broker: records emitted events, or refuses them."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Event]] = []
        self.clients: list[dict[str, str]] = []
        self.timeouts_s: list[float] = []
        self.refuses = False


class End(ProcessExit):
    """Plays the end of the process without ending it or installing hooks."""

    def watch(self) -> None:
        self._register()

    def _register(self) -> None:
        self._pid = os.getpid()

    def come(self, error: BaseException | None = None) -> None:
        self._error = error
        self._end()
