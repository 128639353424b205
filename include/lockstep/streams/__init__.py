"""The streaming enrichment: one module to a mode, and what they share."""
