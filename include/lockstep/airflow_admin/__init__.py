"""Airflow as a program next to us: its environment, its metadata and its API."""
