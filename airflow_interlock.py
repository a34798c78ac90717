"""Empty. Airflow 3.3 imports a provider by the name of its distribution to look for example DAGs.

Without this module `airflow standalone` logs a traceback about it, three times
(https://github.com/apache/airflow/issues/66305).
"""
