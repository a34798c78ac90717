"""OpenLineage's Python client against `airflow interlock receiver`, a process of its own."""

from __future__ import annotations

import json
from typing import Any

import pytest
from interlock import dataset_written, openlineage_run
from interlock.events.kafka import decode
from openlineage.client import OpenLineageClient
from openlineage.client.event_v2 import (
    Dataset,
    DatasetEvent,
    InputDataset,
    Job,
    JobEvent,
    OutputDataset,
    Run,
    RunEvent,
    RunState,
)
from openlineage.client.facet_v2 import nominal_time_run, output_statistics_output_dataset
from openlineage.client.transport.http import ApiKeyTokenProvider, HttpCompression, HttpConfig, HttpTransport

from local.topics import read_all
from tests.integration.plugin.commands.test_receiver import TOKEN, start  # noqa: F401  # a fixture
from tests.kit.lineage import RUN_ID

PRODUCER = "https://example.com/tests"
AT = "2026-11-20T06:00:00+00:00"


def client_of(url: str, key: str = TOKEN, compression: HttpCompression | None = None) -> OpenLineageClient:
    auth = ApiKeyTokenProvider({"apiKey": key})
    return OpenLineageClient(
        transport=HttpTransport(HttpConfig(url=url, auth=auth, compression=compression, timeout=30))
    )


def run_event(state: RunState) -> RunEvent:
    day = nominal_time_run.NominalTimeRunFacet(nominalStartTime="2026-11-19T00:00:00+00:00")
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(rowCount=7)
    return RunEvent(
        eventType=state,
        eventTime=AT,
        run=Run(RUN_ID, {"nominalTime": day}),
        job=Job("prod", "shop.load"),
        producer=PRODUCER,
        inputs=[InputDataset("s3://raw", "orders")],
        outputs=[OutputDataset("s3://lake", "orders", outputFacets={"outputStatistics": statistics})],
    )


@pytest.mark.long
def test_the_client_delivers_each_kind_of_event_and_a_repeat_is_the_same(
    bench: Any,
    start: Any,  # noqa: F811
) -> None:
    process = start()
    for compression in (None, HttpCompression.GZIP):
        client = client_of(process.url, compression=compression)
        client.emit(run_event(RunState.START))
        client.emit(run_event(RunState.COMPLETE))
        client.emit(JobEvent(eventTime=AT, job=Job("prod", "shop.load"), producer=PRODUCER))
        client.emit(DatasetEvent(eventTime=AT, dataset=Dataset("s3://lake", "orders"), producer=PRODUCER))
        client.close()
    with pytest.raises(Exception, match="401"):
        client_of(process.url, "wrong").emit(run_event(RunState.START))
    topic = bench.config.topic("event")
    records = read_all(bench.config.bootstrap_servers, topic)
    events = [decode(None, record.value, list(record.headers)) for record in records]
    kinds = ["dataset", "job", "run.complete", "run.start"]
    assert sorted(event.type for event in events) == sorted(f"openlineage.{kind}" for kind in kinds * 2)
    assert len({event.identity for event in events}) == len(kinds)
    [complete] = {event for event in events if event.type == "openlineage.run.complete"}
    assert json.loads(complete.data or b"")["run"]["runId"] == RUN_ID
    assert openlineage_run("shop.load", "prod", by="nominal_time").key_of(complete) == "2026-11-19T00:00:00Z"
    assert dataset_written("s3://lake", "orders", measured=True).accepts(complete)
    assert TOKEN not in process.log
