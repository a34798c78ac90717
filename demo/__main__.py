"""`make demo`: the main job on real parts, told and checked. Its last line is one JSON object.

Set in the environment: KEEP=1 leaves everything up afterwards until Ctrl-C; FAULT=<name> lets something go
wrong (several names, with commas between: a story for each, side by side; an empty name is the plain story);
DEMO_DIR is the folder for topics, logs, data and reports (.build/demo), which each start empties: it must be
new, empty, or one that the demo made; DEMO_PORT is the UI's port (a free one). Ends with 0 when the check
finds nothing wrong, 1 with the reason when it does or a part does not come up, and 130 on Ctrl-C.
Everything that was started is stopped in each case.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from datetime import date
from pathlib import Path
from typing import Any

import httpx
from interlock.events.errors import InterlockError
from interlock.plugin.broker import LocalBroker

from local import spark_conf
from local.airflow import LocalAirflow, free_port
from local.processes import ServiceError
from local.rest import RestError

from . import check, timeline
from .evidence import ACTION_TOPIC, gather
from .folder import FolderError, own_folder
from .progress import Progress, complain
from .story import DAGS, FAULTS, NONE, Fault, Story, StoryError, business_dates

ROOT = Path(__file__).resolve().parent.parent
# An acknowledgement follows the resumed task; it is looked for this long.
ACKNOWLEDGED_S = 10.0


class DemoError(RuntimeError):
    """The demo cannot run as asked; the message is one sentence for the user."""


def main() -> int:
    # SIGTERM as Ctrl-C: both go through every `finally`.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    progress = Progress()
    try:
        faults = _chosen_faults(os.environ.get("FAULT", ""))
        folder = Path(os.environ.get("DEMO_DIR") or ROOT / ".build" / "demo").resolve()
        with own_folder(folder):
            return _run(folder, faults, os.environ.get("KEEP", "") not in ("", "0"), progress)
    except KeyboardInterrupt:
        complain("stopped by Ctrl-C; nothing is left running")
        return 130
    except (
        DemoError,
        FolderError,
        StoryError,
        ServiceError,
        RestError,
        InterlockError,
        httpx.HTTPError,
        OSError,
    ) as error:
        complain(f"demo: {error}")
        return 1


def _run(folder: Path, faults: Sequence[Fault], keep: bool, progress: Progress) -> int:
    for fault in faults:
        if fault is not NONE:
            progress.plain(f"FAULT={fault.name}: {fault.tells}")
    os.environ["JDK_JAVA_OPTIONS"] = spark_conf.jvm_options()  # the broker inherits it
    broker = LocalBroker(folder / "broker", port=free_port(), report=progress.say)
    airflow = LocalAirflow(
        folder / "airflow",
        ROOT / "dags_examples",
        connections={
            "kafka_default": {
                "conn_type": "kafka",
                "extra": {"bootstrap.servers": f"127.0.0.1:{broker.port}"},
            },
            "spark_default": {"conn_type": "spark", "host": "local[1]"},
        },
        variables={"interlock_examples_data": str(folder / "data")},
        environment=spark_conf.write(folder / "spark"),
        port=int(os.environ.get("DEMO_PORT") or 0),
    )
    try:
        _start(broker, airflow, progress)
        verdicts = _tell(broker, airflow, faults, folder / "data", progress)
        summary = json.dumps(_summary(verdicts, progress))
        if keep:
            progress.plain(summary)
            _keep_up(airflow, broker, progress)
    finally:
        _stop(broker, airflow, progress)
    if not keep:
        progress.plain(summary)
    return 1 if any(verdict.problems for verdict in verdicts.values()) else 0


def _start(broker: LocalBroker, airflow: LocalAirflow, progress: Progress) -> None:
    progress.say("starting a Kafka broker, and making Airflow's database meanwhile")
    with ThreadPoolExecutor(max_workers=1) as pool:
        database = pool.submit(airflow.prepare)
        broker.start()
        progress.say(f"broker up at {broker.bootstrap_servers}")
        _until_done(database, "for Airflow's database", progress)
        airflow.start()
        progress.say("starting Airflow: API server, scheduler, DAG processor, triggerer")
        topics = pool.submit(airflow.cli, "interlock", "topics", "create")
        ready = time.monotonic()
        _until_done(topics, "for the topics", progress)
        created = topics.result()
        if created.returncode:
            raise DemoError(f"airflow interlock topics create failed:\n{created.stdout.strip()[-2000:]}")
        progress.say("topics of the bus `interlock` made")
    airflow.wait_ready(meanwhile=lambda: progress.waiting("for Airflow"))
    airflow.api.wait_for_dags(*DAGS)
    progress.say(f"Airflow up at {airflow.url} ({time.monotonic() - ready:.0f} s)")


def _until_done(future: Any, what: str, progress: Progress) -> None:
    while not future.done():
        progress.waiting(what)
        time.sleep(0.1)
    future.result()


def _tell(
    broker: LocalBroker, airflow: LocalAirflow, faults: Sequence[Fault], data: Path, progress: Progress
) -> dict[str, check.Verdict]:
    """The verdict on each story, by its fault's name. Several are told side by side, on their own dates."""
    ended = threading.Event()

    def check_services() -> None:
        airflow.processes.check()
        if ended.is_set():
            raise StoryError("stopped")

    stories = [
        Story(
            airflow.new_client(),
            broker.bootstrap_servers,
            fault,
            business_dates(number),
            progress,
            check_services,
        )
        for number, fault in enumerate(faults)
    ]
    with ThreadPoolExecutor(max_workers=len(stories)) as pool:
        told = [pool.submit(story.tell) for story in stories]
        try:
            for future in as_completed(told):
                future.result()
        finally:
            ended.set()
    progress.say(f"checking topics, runs and reports ({ACTION_TOPIC}, REST API, {data})")
    known = [day for story in stories for day in story.dates]
    verdicts = {}
    for story in stories:
        verdict = _judge(broker, airflow, data, story.dates, known)
        verdicts[story.fault.name] = verdict
        _print(verdict, progress)
    return verdicts


def _judge(
    broker: LocalBroker, airflow: LocalAirflow, data: Path, dates: Sequence[date], known: Sequence[date]
) -> check.Verdict:
    deadline = time.monotonic() + ACKNOWLEDGED_S
    while True:
        evidence = gather(airflow.api, broker.bootstrap_servers, data, dates, known)
        verdict = check.judge(evidence)
        # What is written last may be on its way; anything else wrong stays wrong.
        if not verdict.problems or verdict.missing or time.monotonic() > deadline:
            return verdict
        time.sleep(0.5)


def _print(verdict: check.Verdict, progress: Progress) -> None:
    progress.plain()
    for line in timeline.lines(verdict.steps):
        progress.plain(line)
    progress.plain()
    for problem in verdict.problems:
        complain(f"demo: {problem}")


def _summary(verdicts: Mapping[str, check.Verdict], progress: Progress) -> dict[str, Any]:
    """Of all stories together, and of each by the name of its fault where there are several."""
    total: dict[str, Any] = {"reports": 0, "duplicates": 0, "missing": 0, "resume_ms": []}
    for verdict in verdicts.values():
        for name in total:
            total[name] += getattr(verdict, name)
    total["seconds"] = round(progress.elapsed_s, 1)
    if len(verdicts) > 1:
        total["stories"] = {
            name or "none": {"reports": v.reports, "duplicates": v.duplicates, "missing": v.missing}
            for name, v in verdicts.items()
        }
    return total


def _keep_up(airflow: LocalAirflow, broker: LocalBroker, progress: Progress) -> None:
    progress.plain(f"Everything is left up.  UI: {airflow.url}")
    progress.plain(f"  login: {airflow.login.user}  password: {airflow.login.password}")
    progress.plain(f"  broker: {broker.bootstrap_servers}   files and logs: {airflow.home.parent}")
    progress.plain("  Ctrl-C stops it all.")
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            airflow.processes.check()
            time.sleep(1.0)


def _stop(broker: LocalBroker, airflow: LocalAirflow, progress: Progress) -> None:
    # A second Ctrl-C must not leave half of it running; stopping is bounded by itself.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    progress.say("stopping everything")
    try:
        airflow.stop()
    finally:
        broker.stop()
    progress.say("everything is stopped")


def _chosen_faults(names: str) -> list[Fault]:
    faults = []
    for name in names.split(","):
        if name and name not in FAULTS:
            raise DemoError(f"no FAULT={name}; there are {', '.join(FAULTS)}")
        faults.append(FAULTS[name] if name else NONE)
    return faults


if __name__ == "__main__":
    sys.exit(main())
