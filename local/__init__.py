"""A real Airflow on this machine, its REST client, and a reader of topics; for the demo and the tests."""
