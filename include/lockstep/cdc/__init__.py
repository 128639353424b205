"""Positions in the database's history: cuts, change records, whole transactions."""
