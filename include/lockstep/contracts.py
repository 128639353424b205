"""Names and value types that every room agrees on. Standard library only.

No table's, topic's, role's or DAG's name is written down anywhere else in Python.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from lockstep.errors import WindowError

PIPELINE = "pizzeria"

# --- PostgreSQL -----------------------------------------------------------------------------
DATABASE = "pizzeria"
ORDERS, TABLE_ASSIGNMENT, CLIENTS, TABLES, PIZZAS = (
    "orders",
    "table_assignment",
    "clients",
    "tables",
    "pizzas",
)
ENRICHMENT_TABLES = (ORDERS, TABLE_ASSIGNMENT, CLIENTS, TABLES, PIZZAS)
OUTBOX = "orders_outbox"
CAPTURED_TABLES = (*ENRICHMENT_TABLES, OUTBOX)
VIEW = "order_enriched_in"
PUBLICATION = "lockstep"
REPLICATION_SLOT = "lockstep"

ORDERS_MESSAGE_PREFIX = "orders"
CUT_MESSAGE_PREFIX = "lockstep.cut"
HEARTBEAT_MESSAGE_PREFIX = "lockstep.heartbeat"
"""A transaction of nothing but this message, every few seconds, by the connector itself."""


class Role(StrEnum):
    """The database roles, least privilege each (include/postgres/roles.sql)."""

    ADMIN = "lockstep_admin"
    OWNER = "pizzeria_owner"
    SHOP = "shop"
    BATCH_READER = "batch_reader"
    CDC = "cdc"
    AIRFLOW = "airflow"


# --- Change data capture --------------------------------------------------------------------
TOPIC_PREFIX = "pizzeria"
CHANGE_TOPIC = "lockstep.pizzeria.changes"
CONNECTOR = "pizzeria"


class KafkaUser(StrEnum):
    """Who signs in to Kafka."""

    ADMIN = "lockstep"
    """May do everything: the broker itself, Connect, who deletes topics."""
    READER = "lockstep_reader"
    """May read the change topic, and nothing else: streams, with their executors."""


CONNECT_USER = "lockstep"
"""Who signs in to Connect's REST interface."""

# --- Lakehouse (paths below Settings.lakehouse) ----------------------------------------------
ORDERS_ENRICHED_BATCH = f"{PIPELINE}/orders_enriched_batch"
ORDERS_ENRICHED_BATCH_COLUMNS = {
    "order_id": "bigint",
    "order_time": "timestamp",
    "client_name": "string",
    "table_name": "string",
    "pizzas": "array<struct<pizza:string,price:decimal(10,2)>>",
    "order_date": "date",
    "order_hour": "int",
    "run_id": "string",
    "cut_snapshot": "string",
    "cut_lsn": "bigint",
    "origin": "struct<table_assignment_id:bigint,pizza_ids:array<int>,"
    "tx_id:bigint,committed_at:timestamp>",
}
"""Name and Delta type of each column. Times are UTC.

origin is the row of `orders` that the order was made of: what it refers to, the transaction (64
bits) that wrote it, and when that committed (null when the database does not track that).
"""
ORDERS_ENRICHED_BATCH_PARTITIONS = ("order_date", "order_hour")
"""The UTC day of order_time, and its hour in it: an hourly window is one partition."""


class StreamMode(StrEnum):
    """The five ways a stream produces the enriched orders, each with a change log of its own."""

    LOOKUP = "lookup"
    OUTBOX = "outbox"
    MESSAGE = "message"
    TEMPORAL = "temporal"
    TRANSACTION = "transaction"


HISTORY = "history"
"""The query that keeps the dimensions' history while the temporal mode, which does, is not run."""


def change_log_table(mode: StreamMode) -> str:
    """The Delta table of a mode's change log."""
    return f"{PIPELINE}/orders_enriched_{mode}"


CHANGE_LOG_COLUMNS = {
    "order_id": "bigint",
    "order_time": "timestamp",
    "client_name": "string",
    "table_name": "string",
    "pizzas": "array<struct<pizza:string,price:decimal(10,2)>>",
    "op": "string",
    "tx_id": "bigint",
    "commit_lsn": "bigint",
    "is_raced": "boolean",
    "committed_at": "timestamp",
    "captured_at": "timestamp",
    "seen_at": "timestamp",
    "written_at": "timestamp",
    "commit_date": "date",
}
"""Name and Delta type of each column: one row for each order and transaction.

op is c, u or d; a delete has nulls from order_time to pizzas. tx_id has 64 bits and is null in
rows of the initial snapshot, whose commit_lsn is 0. Only the look-up marks rows as raced.
committed_at is the database's clock, captured_at Debezium's, seen_at and written_at the driver's.
"""
LOOK_UP_COLUMNS = {
    **CHANGE_LOG_COLUMNS,
    "look_up": "struct<table_assignment_id:bigint,pizza_ids:array<bigint>,"
    "snapshot:string,wal_lsn:bigint>",
}
"""The same of mode lookup, with what a raced row is proved by; null in deletes.

What the order refers to by its change in the topic, the snapshot (pg_snapshot) that the look-up
read, and a position of the database's log at or after the commit of all that this snapshot sees.
"""


def change_log_columns(mode: StreamMode) -> dict[str, str]:
    """Name and Delta type of each column of a mode's change log."""
    return LOOK_UP_COLUMNS if mode is StreamMode.LOOKUP else CHANGE_LOG_COLUMNS


SNAPSHOT_COMMIT_LSN = 0
"""Of rows of the initial snapshot, which ranks before every transaction."""
CHANGE_LOG_PARTITION = "commit_date"
DIMENSION_CHANGES = f"{PIPELINE}/dimension_changes"
DIMENSION_CHANGES_COLUMNS = {
    "dimension": "string",
    "id": "bigint",
    "op": "string",
    "name": "string",
    "price": "decimal(10,2)",
    "client_id": "bigint",
    "table_id": "bigint",
    "tx_id": "bigint",
    "commit_lsn": "bigint",
    "committed_at": "timestamp",
}
"""The dimensions' history: one row for each row of a dimension and transaction that changed it.

dimension is the table's name; op is c, u or d; columns that a dimension lacks are null. The same
(dimension, id, commit_lsn) may be there twice after a crash, with the same content.
"""
DIMENSION_CHANGES_PARTITION = "dimension"
DIMENSION_TABLES = (TABLE_ASSIGNMENT, CLIENTS, TABLES, PIZZAS)
QUARANTINED_RECORDS = f"{PIPELINE}/stream_quarantine"
QUARANTINED_COLUMNS = {
    "stream": "string",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "decision": "string",
    "reason": "string",
    "value": "string",
    "decided_at": "timestamp",
    "last_offset": "bigint",
    "records": "bigint",
    "table": "string",
    "hour": "timestamp",
    "is_order_hour": "boolean",
    "committed_first": "timestamp",
    "committed_last": "timestamp",
    "transactions": "string",
    "transaction_count": "bigint",
}
"""A row for each record put aside by a stream. Of what an operator gave up a row for each table and
hour: from last_offset on, columns that other rows leave empty (lockstep.sources.given_up says what
is in them); reason and value are the first record's, transactions is JSON.
"""
STREAM_METRICS = f"{PIPELINE}/stream_metrics"
BATCH = "batch"
FEEDS = (BATCH, *map(str, StreamMode))
"""What can feed the published table: the hourly table, or the change log of one mode."""
PUBLISHER = "publisher"
"""The process that keeps the published table up to date with its feed."""
ORDERS_ENRICHED = f"{PIPELINE}/orders_enriched"
ORDERS_ENRICHED_COLUMNS = {
    **dict(list(ORDERS_ENRICHED_BATCH_COLUMNS.items())[:7]),  # through its partitions
    "fed_by": "string",
    "position": "bigint",
}
"""The published table, the one that consumers read: one row for each order that there is now.

fed_by is the row's own feed, one of FEEDS. position is an LSN: of the commit that the row is the
state of, or, in rows of the hourly table, of the cut they were read at. Partitioned as the hourly
table. Only lockstep.publish writes it.
"""
CUTOVERS = f"{PIPELINE}/cutovers"
PARITY_LEDGER = f"{PIPELINE}/parity_ledger"
PARITY_DIFFERENCES = f"{PIPELINE}/parity_differences"
LAKEHOUSE_TABLES = (
    ORDERS_ENRICHED_BATCH,
    *(change_log_table(mode) for mode in StreamMode),
    DIMENSION_CHANGES,
    QUARANTINED_RECORDS,
    STREAM_METRICS,
    PARITY_LEDGER,
    PARITY_DIFFERENCES,
    ORDERS_ENRICHED,
    CUTOVERS,
)
"""Every table by name, for a lakehouse whose folders cannot be listed (an object store)."""


def sql_name(table: str) -> str:
    """What a table of the lakehouse is called in SQL."""
    return table.rsplit("/", 1)[-1]


# --- Airflow --------------------------------------------------------------------------------
HOURLY_DAG_ID = "orders_enriched_hourly"
HOURLY_ASSET_URI = "lockstep://pizzeria/orders_enriched_batch"
PARITY_DAG_ID = "orders_parity_hourly"
REPAIR_DAG_ID = "orders_repair"
PUBLISH_DAG_ID = "orders_publish"
CUTOVER_DAG_ID = "orders_cutover"
MAINTENANCE_DAG_ID = "lockstep_maintenance"
SPARK_CONNECTION = "spark_default"
NOTIFY_CONNECTION = "lockstep_notify"
DATA_DOCS_URL = "/lockstep/data-docs"
PARITY_URL = "/lockstep/parity"


def stream_dag_id(mode: StreamMode) -> str:
    """The DAG that keeps a stream running."""
    return f"stream_{mode}"


class ReadMode(StrEnum):
    """How the hourly run reads PostgreSQL."""

    VIEW = "view"
    TABLES = "tables"


class CheckStatus(StrEnum):
    """The outcome of one quality check, or of a suite (then: its worst check)."""

    PASS = "pass"  # noqa: S105
    WARN = "warn"
    FAIL = "fail"


class Verdict(StrEnum):
    """What a comparison of an hourly window with a stream came to.

    waiting: the stream has not passed the window's cut. not_covered: what the window holds was
    there before the stream began.
    """

    PASS = "pass"  # noqa: S105
    FAIL = "fail"
    WAITING = "waiting"
    NOT_COVERED = "not_covered"


class DifferenceClass(StrEnum):
    """Why an order differs, in the order in which the classes are tried: exactly one applies."""

    DUPLICATE_IN_STREAM = "duplicate_in_stream"
    MISSING_IN_STREAM = "missing_in_stream"
    MISSING_IN_BATCH = "missing_in_batch"
    LOOKUP_RACE = "lookup_race"
    DIMENSION_DRIFT = "dimension_drift"
    VALUE_MISMATCH = "value_mismatch"
    CHANGED_AFTER_CUT = "changed_after_cut"


@dataclass(frozen=True)
class Window:
    """A half-open interval [start, end) of order_time; both bounds are UTC."""

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        for name in ("start", "end"):
            bound = getattr(self, name)
            if bound.tzinfo is None:
                raise WindowError(
                    f"window {name} {bound.isoformat()} has no time zone; "
                    f"write it as {bound.isoformat()}Z or with an offset"
                )
            object.__setattr__(self, name, bound.astimezone(UTC))
        if self.end <= self.start:
            raise WindowError(
                f"window end {self.end.isoformat()} is not after its start "
                f"{self.start.isoformat()}; windows are half-open [start, end)"
            )

    @classmethod
    def parse(cls, start: str, end: str) -> "Window":
        """Read two ISO 8601 instants; without a zone they are UTC.

        Raises WindowError when either cannot be read or the end is not after the start.
        """
        return cls(_parse_instant("start", start), _parse_instant("end", end))

    @property
    def duration(self) -> timedelta:
        return self.end - self.start

    def __str__(self) -> str:
        return f"[{self.start.isoformat()}, {self.end.isoformat()})"


HOUR = timedelta(hours=1)
WINDOW_DUE_AFTER = timedelta(minutes=5)
"""Lets orders that were taken just before the hour commit before the hour is read."""


def last_due_window(as_of: datetime) -> Window:
    """The latest window, a whole hour of UTC, whose hh:05 is not after `as_of`."""
    due = (as_of - WINDOW_DUE_AFTER).astimezone(UTC)
    end = due.replace(minute=0, second=0, microsecond=0)
    return Window(end - HOUR, end)


def _parse_instant(name: str, text: str) -> datetime:
    try:
        instant = datetime.fromisoformat(text)
    except ValueError as error:
        raise WindowError(
            f"window {name} {text!r} is not an ISO 8601 time such as 2015-01-01T11:00:00Z"
        ) from error
    return instant if instant.tzinfo else instant.replace(tzinfo=UTC)
