"""`lockstep bench flink`: stream mode `outbox` next to Apache Flink, on the same change topic."""
