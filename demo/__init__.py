"""The demo: plays a story on a local broker and a local Airflow, and checks what happened."""
