"""OpenLineage events of the shapes that the integrations send, written for the tests."""

from __future__ import annotations

import json
from typing import Any

RUN_ID = "0197a1b2-3c4d-7e5f-8a6b-7c8d9e0f1a2b"
FACET = {"_producer": "https://example.com/tool/1.4", "_schemaURL": "https://example.com/facet.json"}


def dataset(namespace: str, name: str, **more: Any) -> dict[str, Any]:
    return {"namespace": namespace, "name": name, **more}


def run_event(state: object = "COMPLETE", job: object = "shop.load", **more: Any) -> dict[str, Any]:
    """A small run event; None leaves a member out. job: its name, or the whole member."""
    form = {
        "eventType": state,
        "eventTime": "2026-11-20T06:00:00.123Z",
        "run": {"runId": RUN_ID},
        "job": {"namespace": "prod", "name": job} if isinstance(job, str) else job,
        "producer": "https://example.com/tool/1.4",
        "schemaURL": "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent",
        **more,
    }
    return {name: value for name, value in form.items() if value is not None}


def text(form: object) -> bytes:
    return json.dumps(form).encode()


def of_spark() -> dict[str, Any]:
    """As Spark writes a table: the dataset has the path of its files, and the table among its other names."""
    return run_event(
        job="daily_orders.execute_insert_into_hadoop_fs_relation_command.warehouse_orders",
        run={
            "runId": RUN_ID,
            "facets": {
                "parent": {
                    **FACET,
                    "run": {"runId": "0197a1b2-0000-7000-8000-000000000001"},
                    "job": {"namespace": "prod", "name": "daily_orders"},
                },
                "processing_engine": {**FACET, "version": "4.0.0", "name": "spark"},
            },
        },
        inputs=[dataset("s3://raw", "orders/2026", facets={"dataSource": {**FACET, "name": "s3://raw"}})],
        outputs=[
            dataset(
                "s3://lake",
                "warehouse/orders",
                facets={
                    "symlinks": {
                        **FACET,
                        "identifiers": [
                            {"namespace": "hive://meta:9083", "name": "shop.orders", "type": "TABLE"}
                        ],
                    },
                    "schema": {**FACET, "fields": [{"name": "day", "type": "date"}]},
                },
                outputFacets={"outputStatistics": {**FACET, "rowCount": 7, "size": 70}},
            )
        ],
    )


def of_airflow() -> dict[str, Any]:
    """As Airflow's provider: times with an offset, and the interval of the run as its nominal time."""
    return run_event(
        job="shop.load",
        eventTime="2026-11-20T06:00:00.123456+00:00",
        run={
            "runId": RUN_ID,
            "facets": {
                "nominalTime": {
                    **FACET,
                    "nominalStartTime": "2026-11-19T00:00:00+00:00",
                    "nominalEndTime": "2026-11-20T00:00:00+00:00",
                },
            },
        },
        inputs=[],
        outputs=[],
    )


def of_dbt() -> dict[str, Any]:
    return run_event(
        job="shop.analytics.jaffle.orders",
        eventTime="2026-11-20T06:00:00.123456Z",
        inputs=[dataset("snowflake://org-account", "SHOP.RAW.ORDERS")],
        outputs=[dataset("snowflake://org-account", "SHOP.ANALYTICS.ORDERS")],
    )


def of_a_job() -> dict[str, Any]:
    return run_event(None, run=None, outputs=[dataset("file", "/lake/orders")])


def of_a_dataset() -> dict[str, Any]:
    return run_event(None, run=None, job=None, dataset=dataset("file", "/lake/orders"))
