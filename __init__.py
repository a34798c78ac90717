"""Interlock: hold an Airflow task until a condition over events on Kafka is met."""
