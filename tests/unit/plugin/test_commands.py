"""The provider info that Airflow reads: an error in it breaks every `airflow` command."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import resources

import jsonschema
from interlock.plugin.provider import get_provider_info


def test_the_provider_info_satisfies_airflows_schema() -> None:
    schema = json.loads(resources.files("airflow").joinpath("provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_each_named_command_function_exists() -> None:
    for path in get_provider_info()["cli"]:
        module, _, name = path.rpartition(".")
        groups = getattr(__import__(module, fromlist=[name]), name)()
        assert [group.name for group in groups] == ["interlock"]
        assert "broker" in [command.name for command in groups[0].subcommands]


def test_building_the_commands_loads_neither_kafka_nor_spark() -> None:
    """Airflow builds its parser in every process, and forks afterwards."""
    code = (
        "import sys; from interlock.plugin.commands import get_cli_commands; get_cli_commands();"
        "print(sorted({m.split('.')[0] for m in sys.modules} & {'confluent_kafka', 'pyspark', 'py4j'}))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip().splitlines()[-1] == "[]"
