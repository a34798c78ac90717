"""What Airflow discovers: the provider info, the listener and the commands; and the development broker.

Airflow loads this package in each of its processes, so heavy imports wait until they are used.
"""
