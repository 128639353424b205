"""What Lockstep itself writes into a database's log, and where rows of the first snapshot rank."""

SNAPSHOT_COMMIT_LSN = 0
"""Of rows of the initial snapshot, which ranks before every transaction."""
HEARTBEAT_MESSAGE_PREFIX = "lockstep.heartbeat"
"""A transaction of nothing but this message, every few seconds, by the connector itself."""
