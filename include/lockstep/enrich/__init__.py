"""Binds relations to the shared SQL: pure, DataFrame to DataFrame, no I/O and no clock."""
