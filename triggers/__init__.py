"""Airflow triggers, which are thin wrappers around the process's runtime; and the settings."""
