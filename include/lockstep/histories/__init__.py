"""Tries a pipeline on histories that are made up in memory: no database is asked."""
