"""Repairs: just the rows of a window that changed after its hourly run, merged in one commit."""
