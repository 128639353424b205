"""The hourly run: a window of a pipeline's rows, from PostgreSQL into their Delta table."""
