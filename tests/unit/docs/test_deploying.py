"""The units and manifests of docs/operate/deploy are valid, and use what Interlock has."""

from __future__ import annotations

import argparse
import asyncio
import shlex
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import kubernetes_validate
import pytest
import yaml
from interlock.engine.runtime.delivering import CLOSE_S
from interlock.engine.runtime.probes import Probes
from interlock.plugin.broker.ports import free_ports
from interlock.plugin.commands import deliver, engine, receiver
from interlock.receiver.app import Receiver
from interlock.receiver.server import GRACE_S

from tests.kit.asking import status
from tests.unit.receiver.asking import Bus, ask

FOLDER = Path(__file__).parents[3] / "docs" / "operate" / "deploy"
UNITS = sorted(FOLDER.glob("*.service"))
MANIFESTS = [
    pytest.param(form, id=f"{file.name} {form['kind']}")
    for file in sorted(FOLDER.glob("*.yaml"))
    for form in yaml.safe_load_all(file.read_text())
]
CONTAINERS = [
    (file.name, form["spec"]["template"]["spec"])
    for file in sorted(FOLDER.glob("*.yaml"))
    for form in yaml.safe_load_all(file.read_text())
    if form["kind"] == "Deployment"
]


@pytest.mark.parametrize("form", MANIFESTS)
@pytest.mark.parametrize("version", ["1.31", "1.37"])
def test_manifests_fit_the_schema_of_kubernetes(form: dict[str, Any], version: str) -> None:
    kubernetes_validate.validate(form, version, strict=True)


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_valid(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text()
    assert "/opt/airflow/bin/airflow" in text
    copy = tmp_path / unit.name
    copy.write_text(text.replace("/opt/airflow/bin/airflow", sys.executable))
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(copy)], capture_output=True, text=True, check=False
    )
    assert (result.returncode, unit.name in result.stderr) == (0, False), result.stderr


def commands() -> list[Any]:
    found = []
    for unit in UNITS:
        text = unit.read_text().replace("\\\n", " ")
        [line] = [line for line in text.splitlines() if line.startswith("ExecStart=")]
        found.append(pytest.param(shlex.split(line)[1:], id=unit.name))
    for name, spec in CONTAINERS:
        [container] = spec["containers"]
        command = [*container["command"], *container.get("args", [])]
        if command[1] == "interlock":
            found.append(pytest.param(command[1:], id=name))
    return found


@pytest.mark.parametrize("command", commands())
def test_commands_have_these_options(command: list[str]) -> None:
    given = {"receiver": receiver, "engine": engine, "deliver": deliver}[command[1]].command()
    parser = argparse.ArgumentParser(exit_on_error=False)
    for arg in given.args:
        arg.add_to_parser(parser)
    assert command[0] == "interlock"
    parser.parse_args(command[2:])


def test_what_delivers_gets_the_time_to_end_its_deliveries_in_flight() -> None:
    [unit] = [unit.read_text() for unit in UNITS if "deliver" in unit.name]
    [drain] = [arg.kwargs["default"] for arg in deliver.command().args if "--drain" in arg.flags]
    [stop] = [line for line in unit.splitlines() if line.startswith("TimeoutStopSec=")]
    assert int(stop.partition("=")[2]) > drain + CLOSE_S
    assert dict(CONTAINERS)["deliver.yaml"]["terminationGracePeriodSeconds"] > drain + CLOSE_S


@pytest.mark.parametrize(("name", "spec"), CONTAINERS, ids=[name for name, _ in CONTAINERS])
def test_containers_have_no_more_rights_than_they_need(name: str, spec: dict[str, Any]) -> None:
    [container] = spec["containers"]
    assert spec["securityContext"]["runAsNonRoot"]
    assert not spec["automountServiceAccountToken"]
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}
    }  # fmt: skip
    assert {"cpu", "memory"} <= set(container["resources"]["requests"])
    assert "memory" in container["resources"]["limits"]
    assert "livenessProbe" in container


@pytest.mark.parametrize("name", ["engine.yaml", "deliver.yaml"])
def test_engines_and_deliverers_get_their_probes(name: str) -> None:
    [container] = dict(CONTAINERS)[name]["containers"]
    [port] = container["ports"]
    given = dict(zip(container["args"][::2], container["args"][1::2], strict=True))
    assert given == {"--probe-host": "0.0.0.0", "--probe-port": str(port["containerPort"])}
    [free] = free_ports(1)
    loops = SimpleNamespace(problem=None, is_ready=True)
    with Probes(loops, "127.0.0.1", free):
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container[probe]["httpGet"]
            assert asked["port"] == port["name"]
            assert status(free, asked["path"]) == 200
        loops.problem, loops.is_ready = "A thread hangs.", False
        assert status(free, container["livenessProbe"]["httpGet"]["path"]) == 503
        loops.problem = None  # an outage restarts nothing
        assert status(free, container["livenessProbe"]["httpGet"]["path"]) == 200
        assert status(free, container["readinessProbe"]["httpGet"]["path"]) == 503


def test_the_receiver_gets_its_probes_and_the_time_to_end() -> None:
    spec = dict(CONTAINERS)["receiver.yaml"]
    [container] = spec["containers"]
    assert (
        spec["terminationGracePeriodSeconds"]
        > GRACE_S + container["lifecycle"]["preStop"]["sleep"]["seconds"]
    )
    [port] = container["ports"]
    assert str(port["containerPort"]) == container["args"][container["args"].index("--port") + 1]

    async def check() -> None:
        ready = Receiver({})
        ready.writer = Bus()
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            asked = container[probe]["httpGet"]
            assert asked["port"] == port["name"]
            assert (await ask(ready, path=asked["path"], method="GET")).status == 200

    asyncio.run(check())
    unit = next(unit for unit in UNITS if "receiver" in unit.name).read_text()
    [stop] = [line for line in unit.splitlines() if line.startswith("TimeoutStopSec=")]
    assert int(stop.partition("=")[2]) > GRACE_S
