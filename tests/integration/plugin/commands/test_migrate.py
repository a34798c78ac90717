"""`airflow interlock migrate knative --apply` on a bus where an engine runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

TRIGGER = """
apiVersion: eventing.knative.dev/v1
kind: Trigger
metadata: {name: orders}
spec:
  broker: default
  filter: {attributes: {type: %s}}
  subscriber: {uri: "http://orders.example.com/%s"}
  delivery: {retry: 2}
"""


def test_triggers_are_registered_once_with_their_sinks_and_fire(
    interlock: Any, bench: Any, eventually: Any, tmp_path: Path
) -> None:
    file = tmp_path / "triggers.yaml"

    def migrate(type_: str, path: str) -> Any:
        file.write_text(TRIGGER % (type_, path))
        return interlock("migrate", "knative", str(file), "--apply", "--yes")

    with bench.engine():
        first = migrate("paid", "in")
        assert [(row["subscription"], row["state"]) for row in first.rows()] == [
            ("airflow/deliver/orders", "registered")
        ]
        assert migrate("paid", "in").rows()[0]["state"] == "unchanged"
        assert migrate("paid", "other").rows()[0]["state"] == "registered"
        refused = migrate("refunded", "in")
        assert (refused.code, "registered with another condition" in refused.err) == (1, True)
        bench.emit("paid", id="p")
        shown = eventually(
            "the event has fired",
            lambda: (
                (text := interlock("subscriptions", "show", "orders").out)
                and '"open_firings": 1' in text
                and text
            ),
        )
        assert "/other" in shown
