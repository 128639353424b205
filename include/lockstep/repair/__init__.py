"""Repairs: just the orders of a window that changed after its hourly run, merged in one commit."""
