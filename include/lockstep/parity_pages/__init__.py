"""The pages of parity as HTML: what Airflow serves, and `lockstep parity report` writes to a file.

Rendered without scripts, with their styles inside. They read; they never change anything.
"""
