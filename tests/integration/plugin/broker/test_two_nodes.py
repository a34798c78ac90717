"""What Kafka does on two nodes that one alone can show only by chance; real brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from bench.brokers import two_nodes


@pytest.mark.long
def test_a_transaction_that_ends_while_a_partition_has_no_leader_ends_there_when_it_has_one_again(
    tmp_path: Path, say: Callable[[str], None], eventually: Callable[..., Any]
) -> None:
    """Kafka 4.3.0 to 4.4.0 leave it open for ever there (KAFKA-20734): why the broker is none of these."""
    first, second = two_nodes(tmp_path, say)
    try:
        client = {"bootstrap.servers": first.bootstrap_servers}
        ends = {name: Producer({**client, "transactional.id": name}) for name in ("committed", "aborted")}
        for producer in ends.values():
            producer.init_transactions(30)  # before there is another node, which could be the coordinator
        second.start()
        admin = AdminClient(client)
        topic = NewTopic("both", 2, replica_assignment=[[1], [2]])
        eventually("two nodes", lambda: len(admin.list_topics(timeout=10).brokers) == 2)
        admin.create_topics([topic])["both"].result()
        for name, producer in ends.items():
            producer.begin_transaction()
            for partition in (0, 1):
                producer.produce("both", name.encode(), partition=partition)
            assert producer.flush(30) == 0
        second.kill()
        eventually(
            "no leader",
            lambda: admin.list_topics("both", timeout=10).topics["both"].partitions[1].leader == -1,
        )
        ends["committed"].commit_transaction(30)
        ends["aborted"].abort_transaction(30)
        second.start()
        reader = Consumer({**client, "group.id": "reader", "isolation.level": "read_committed"})
        reader.assign([TopicPartition("both", partition, 0) for partition in (0, 1)])
        read = []

        def read_both() -> bool:
            message = reader.poll(0.1)
            if message is not None and message.error() is None:
                read.append((message.partition(), message.value()))
            return len(read) == 2

        eventually("what was committed is read on both nodes", read_both)
        reader.close()
        assert sorted(read) == [(0, b"committed"), (1, b"committed")]
    finally:
        second.stop()
        first.stop()
