"""The streaming enrichment: the driver, the modes, and what they share."""
