"""The jobs, each a file that spark-submit runs."""
