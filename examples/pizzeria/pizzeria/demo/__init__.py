"""The guided demonstration: the real stack, live orders, the real DAG. Nothing is staged here."""
