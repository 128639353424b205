"""The hourly run: a window of PostgreSQL's orders, enriched, into its Delta table."""
