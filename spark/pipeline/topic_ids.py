"""The ids of topics, which tell a topic that was deleted and created again from the one before it.

Spark's connector compares offsets only, and no DataFrame has the id of a record's topic. So its Kafka client
is asked, in the driver's JVM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CLIENT: Final = "kafka."  # what the connector's options have in front of the client's properties
_NO_TOPIC: Final = "org.apache.kafka.common.errors.UnknownTopicOrPartitionException"


def topic_ids(spark: SparkSession, options: Mapping[str, str], topics: Sequence[str]) -> dict[str, str]:
    """{topic: id} of those of the topics that exist, as the brokers say. Needs a classic session.

    options: the connector's. Raises py4j's Py4JJavaError with the exception of Kafka's client.
    """
    from py4j.protocol import Py4JJavaError

    jvm: Any = spark._jvm
    properties = jvm.java.util.Properties()
    for name, value in options.items():
        if name.startswith(_CLIENT):
            properties.put(name.removeprefix(_CLIENT), value)
    names = jvm.java.util.ArrayList()
    for topic in topics:
        names.add(topic)
    found = {}
    admin = jvm.org.apache.kafka.clients.admin.AdminClient.create(properties)
    try:
        answers = admin.describeTopics(names).topicNameValues()
        for topic in topics:
            try:
                found[topic] = str(answers.get(topic).get().topicId().toString())
            except Py4JJavaError as error:
                cause = error.java_exception.getCause()
                if cause is None or cause.getClass().getName() != _NO_TOPIC:
                    raise
    finally:
        admin.close()
    return found
