"""docs/use/migrating-argo.md has each field of Argo's Sensors, and its example does what it says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from airflow.cli.cli_parser import get_parser
from interlock import Event
from interlock.testing import runs_of

USE = Path(__file__).parents[3] / "docs" / "use"
PAGE = (USE / "migrating-argo.md").read_text()
SOURCES = (USE / "migrating-events.md").read_text()

# The fields of argoproj.io/v1alpha1, by the section of the page that has them.
FIELDS = {
    "# Sensor": {
        "spec.dependencies", "spec.triggers", "spec.template", "spec.replicas", "spec.revisionHistoryLimit",
        "spec.eventBusName", "spec.errorOnFailedRound", "spec.loggingFields",
    },
    "# Dependencies": {
        "name", "eventSourceName", "eventName", "filters", "filtersLogicalOperator", "transform.jq",
        "transform.script",
    },
    "## Filters": {
        "context.id", "context.source", "context.specversion", "context.type", "context.datacontenttype",
        "context.subject", "context.time", "data", "dataLogicalOperator", "exprs.expr", "exprs.fields",
        "exprLogicalOperator", "script", "time.start", "time.stop", "time.timezone",
        "path", "type", "value", "comparator", "template",
    },
    "# Triggers": {
        "template", "parameters", "policy.k8s", "policy.status", "retryStrategy", "rateLimit.unit",
        "rateLimit.requestsPerUnit", "atLeastOnce", "dlqTrigger",
    },
    "## Templates": {
        "name", "conditions", "conditionsReset", "k8s", "argoWorkflow", "http", "awsLambda", "custom",
        "kafka", "nats", "slack", "openWhisk", "log", "azureEventHubs", "pulsar", "azureServiceBus", "email",
    },
    "## http": {
        "url", "payload", "tls", "method", "parameters", "timeout", "basicAuth", "headers", "secureHeaders",
        "dynamicHeaders", "host",
    },
    "## Parameters": {
        "src.dependencyName", "src.contextKey", "src.contextTemplate", "src.dataKey", "src.dataTemplate",
        "src.value", "src.useRawData", "dest", "operation",
    },
    "# EventSources": {
        "minio", "calendar", "file", "resource", "webhook", "amqp", "kafka", "mqtt", "nats", "sns", "sqs",
        "pubSub", "github", "gitlab", "hdfs", "slack", "storageGrid", "azureEventsHub", "stripe", "emitter",
        "redis", "nsq", "pulsar", "generic", "bitbucketserver", "bitbucket", "redisStream",
        "azureServiceBus", "azureQueueStorage", "sftp", "gerrit", "mns",
    },
}  # fmt: skip
# Fields of the EventSources that have a table of their own on the page about sources; `webhook`, `metadata`
# and `filter` are there among the fields that several have.
OF_SOURCES = {
    "github": {
        "id", "owner", "repository", "events", "apiToken", "webhookSecret", "insecure", "active",
        "contentType", "githubBaseURL", "githubUploadURL", "deleteHookOnFinish", "repositories",
        "organizations", "githubApp",
    },
    "gitlab": {
        "projectID", "events", "accessToken", "enableSSLVerification", "gitlabBaseURL", "deleteHookOnFinish",
        "projects", "secretToken", "groups",
    },
    "slack": {"signingSecret", "token"},
    "stripe": {"createWebhook", "apiKey", "eventFilter"},
    "kafka": {
        "url", "partition", "topic", "connectionBackoff", "tls", "jsonBody", "consumerGroup",
        "limitEventsPerSecond", "version", "sasl", "config", "schemaRegistry", "awsMskIamAuth",
    },
    "calendar": {"schedule", "interval", "exclusionDates", "timezone", "metadata", "persistence"},
}  # fmt: skip


def named(page: str, section: str) -> set[str]:
    """What the first column of a section's tables names."""
    text = re.split(r"\n#+ ", page.partition(f"#{section}\n")[2])[0]
    rows = re.findall(r"^\| (.*?) \|", text, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`(.*?)`", row)}


@pytest.mark.parametrize("section", FIELDS)
def test_the_table_has_each_field_and_no_other(section: str) -> None:
    assert named(PAGE, f" {section.lstrip('# ')}") == FIELDS[section]


@pytest.mark.parametrize("source", OF_SOURCES)
def test_the_page_about_sources_has_each_field(source: str) -> None:
    assert OF_SOURCES[source] - named(SOURCES, f"## {source}") == set()


def sent(kind: str, at: str, rows: int = 1) -> Event:
    return Event.of(kind, "/s", id=f"{kind} {at}", time=f"2026-11-{at}:00Z", data={"rows": rows})


def test_the_example_runs_when_both_have_come_on_one_day_or_somebody_overrides() -> None:
    names: dict[str, Any] = {"__name__": "example"}
    [block] = re.findall(r"```python\n# after\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(block, "after", "exec"), names)
    orders = sent("com.shop.orders.done", "20T10:00")
    rates = sent("com.bank.rates.published", "20T11:00")

    def runs(*events: Event) -> int:
        return len(runs_of(names["report"], list(events)))

    assert runs(orders) == 0
    assert runs(orders, rates) == 1
    assert runs(sent("com.shop.orders.done", "20T10:00", rows=0), rates) == 0
    assert runs(orders, sent("com.bank.rates.published", "21T11:00")) == 0
    assert runs(sent("com.ops.override", "20T10:00")) == 1


def test_the_command_makes_the_condition_of_the_example_but_for_the_attributes_to_complete(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    [before] = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    file = tmp_path / "sensors.yaml"
    file.write_text(before)
    args = get_parser().parse_args(["interlock", "migrate", "argo", str(file), "--output", "json"])
    args.func(args)
    _, found = json.loads(capsys.readouterr().out)
    made = found["subscription"]
    orders = 'event(source="shop", subject="orders", where="double(data.rows) > 0.0", label="orders")'
    rates, override = (
        f'event(source="{source}", subject="{label}", label="{label}")'
        for source, label in (("bank", "rates"), ("ops", "override"))
    )
    assert (
        made["condition"]
        == f'(({orders} & {rates}) | {override}).resets("0 0 * * *", timezone="Europe/London")'
    )
    assert (made["function"], made["trigger_dag_id"]) == ("dispatch_dag", "report")
    assert [each["field"] for each in found["left_out"]] == ["spec.triggers[0].retryStrategy"]
