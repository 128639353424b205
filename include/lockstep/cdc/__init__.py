"""Positions in the database's history: cuts now; envelopes, transactions and the frontier next."""
