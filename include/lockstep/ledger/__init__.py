"""The ledger of all comparisons: what was compared when, and what it came to. Without Spark."""
