"""Compares the hourly table with the streams' change logs, order by order, at the run's own cut."""
