"""Compares the hourly table with the streams' change logs, row by row, at the run's own cut."""
