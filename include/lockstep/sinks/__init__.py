"""Where rows go: Delta tables, each with one writer at a time and idempotent writes."""
