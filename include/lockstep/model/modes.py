"""The ways to produce a result, and what may feed the table that consumers read."""

from enum import StrEnum


class StreamMode(StrEnum):
    """The five ways a stream produces the rows, each with a change log of its own."""

    LOOKUP = "lookup"
    OUTBOX = "outbox"
    MESSAGE = "message"
    TEMPORAL = "temporal"
    TRANSACTION = "transaction"


class ReadMode(StrEnum):
    """How the hourly run reads PostgreSQL."""

    VIEW = "view"
    TABLES = "tables"


BATCH = "batch"
FEEDS = (BATCH, *map(str, StreamMode))
"""What can feed the published table: the hourly table, or the change log of one mode."""
PUBLISHER = "publisher"
"""The process that keeps the published table up to date with its feed."""
HISTORY = "history"
"""The query that writes the source's history."""
