"""Where rows come from: Kafka, the PostgreSQL snapshot, Delta. Never writes."""
