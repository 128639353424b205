"""Metrics of the streams, out of their heartbeats: a Delta table, Prometheus, the status page."""
