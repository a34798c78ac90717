"""A bus that takes events of Interlock's own types only with proof, on a real broker."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from interlock import dag_run
from interlock.engine.admin.dead_letters import DeadLetter, DeadLetters, Selection
from interlock.engine.admin.redrive import redrive
from interlock.engine.config import BusConfig
from interlock.engine.reading.emitted import Emitted
from interlock.events.taxonomy import DAG_RUN_SUCCEEDED

from .conftest import Bench

OLD, NEW = {"interlock.proof.secret": "canary-old" * 4}, {"interlock.proof.secret": "canary-new" * 4}
FROM = {"interlock.proof.from": "2020-01-01T00:00:00Z"}


def test_only_a_run_that_its_emitter_proves_counts_and_a_redriven_event_keeps_its_proof(
    bench: Bench, eventually: Any
) -> None:
    plain = bench.config

    def connect(more: Mapping[str, str]) -> None:
        bench.config, bench._emitter = replace(plain, client={**plain.client, **more}), None

    def emit(run: str) -> None:
        data = {"run_id": run}
        bench.emit(DAG_RUN_SUCCEEDED, source="/prod/ledger", id=run, subject="ledger", data=data)

    bench.subscribe("each", dag_run("ledger", by="run_id"))
    emit("forged")
    connect(OLD)
    emit("of the old secret")
    connect({**NEW, **FROM})
    emit("real")
    with bench.engine():
        assert keys(bench.eventually_fired("each", 1)) == ["real"]
        refused = eventually("two dead letters", lambda: len(found := dead_letters(plain)) == 2 and found)
        ids = {dead_letter.event_id: dead_letter for dead_letter in refused}
        assert "only with a proof of its emitters" in ids["forged"].reason
        assert "does not accept" in ids["of the old secret"].reason
        assert "canary" not in "".join(dead_letter.reason for dead_letter in refused)
    wanted = [("/prod/ledger", run) for run in ("forged", "of the old secret", "real")]
    assert Emitted(bench.config).among(wanted, 0) == {("/prod/ledger", "real")}
    assert not [r for kind in ("event", "action", "dead-letter") for r in bench.records(kind) if canary_in(r)]

    connect({**NEW, **FROM, "interlock.proof.secret.accepted": OLD["interlock.proof.secret"]})
    with closing(DeadLetters(bench.config)) as found:
        list(redrive(bench.config, found.records(refused)))
    with bench.engine():
        assert keys(bench.eventually_fired("each", 2)) == ["real", "of the old secret"]
        again = eventually(
            "the forged one fails again", lambda: [x for x in dead_letters(plain) if x.attempts == 2]
        )
    assert [dead_letter.event_id for dead_letter in again] == ["forged"]


def keys(firings: list[dict[str, Any]]) -> list[str]:
    return [each["firing"]["key"] for each in firings]


def dead_letters(config: BusConfig) -> list[DeadLetter]:
    with closing(DeadLetters(config)) as found:
        return found.find(Selection())


def canary_in(record: Any) -> bool:
    return b"canary" in b"".join([record.value or b"", *(raw or b"" for _, raw in record.headers or ())])
