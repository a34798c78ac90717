"""The page Interlock and the tab Wait in Airflow's UI: a FastAPI app in the API server, and its bundle.

docs/understand/page.md has the addresses, their JSON, and who may see and do what.
"""
