"""What Airflow discovers: the provider's name, settings and commands, and the development broker.

Airflow loads `provider` in each of its processes, so nothing here imports anything heavy before it is used.
"""
