"""A real Airflow, its REST client and Kafka topics on this machine, for the demo, the tests and `make ha`."""
