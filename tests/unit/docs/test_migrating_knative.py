"""docs/use/migrating-knative.md has each field of Knative's resources, and the command prints its example."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from airflow.cli.cli_parser import get_parser

PAGE = (Path(__file__).parents[3] / "docs" / "use" / "migrating-knative.md").read_text()

DELIVERY = (
    "deadLetterSink", "retry", "timeout", "backoffPolicy", "backoffDelay", "backoffMax", "retryAfterMax",
    "format",
)  # fmt: skip
# The fields of eventing.knative.dev/v1, by the section of the page that has them.
FIELDS = {
    "Trigger": {
        "metadata.name", "metadata.namespace", "metadata.labels", "metadata.annotations", "spec.broker",
        "spec.brokerRef", "spec.filter.attributes", "spec.filters", "spec.subscriber.uri",
        "spec.subscriber.ref", "spec.subscriber.CACerts", "spec.subscriber.audience", "spec.delivery",
    },
    "Filters": {"exact", "prefix", "suffix", "all", "any", "not", "cesql"},
    "Delivery": {f"delivery.{name}" for name in DELIVERY},
    "Broker": {"metadata.annotations", "spec.config", "spec.delivery", "status.address"},
}  # fmt: skip
RESOURCES = {
    "Channel", "Subscription", "Sequence", "Parallel", "EventTransform", "EventType", "EventPolicy",
    "RequestReply", "JobSink", "IntegrationSink",
}  # fmt: skip


def named(section: str) -> set[str]:
    """What the first column of a section's table names."""
    text = re.split(r"\n#+ ", PAGE.partition(f"# {section}\n")[2])[0]
    return {
        name
        for row in re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
        for name in re.findall(r"`(.*?)`", row)
    }


@pytest.mark.parametrize("section", FIELDS)
def test_the_table_has_each_field_and_no_other(section: str) -> None:
    assert named(section) == FIELDS[section]


def test_each_other_resource_has_its_line() -> None:
    assert named("Other resources") == RESOURCES


def test_the_command_prints_what_the_page_shows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "triggers.yaml"
    [resources] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    [connection] = re.findall(r"^airflow connections add .*\n", PAGE, re.MULTILINE)
    [source] = re.findall(r"```python\n(\"\"\"DAGs made.*?)```", PAGE, re.DOTALL)
    file.write_text(resources)
    args = get_parser().parse_args(["interlock", "migrate", "knative", str(file)])
    args.func(args)
    assert capsys.readouterr().out.endswith(connection + source)
