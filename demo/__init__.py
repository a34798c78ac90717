"""The demo: a local broker, a local Airflow, the story told on them and the check of what happened."""
