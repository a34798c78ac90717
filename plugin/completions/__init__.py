"""The ends of DAG runs and tasks that Airflow tells: as they happen, and those that a crash swallowed."""
