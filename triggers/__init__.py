"""Airflow triggers, and what operators share with them: settings, connections, checks of arguments."""
