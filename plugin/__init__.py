"""The provider info, the listener and the commands, which Airflow discovers; and the development broker.

Airflow loads this package in each of its processes, so heavy imports wait until they are used.
"""
