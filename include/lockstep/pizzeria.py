"""The names of the pizzeria that do not follow from its folders yet: its tables, topic and DAGs.

None of them is written down anywhere else in Python. The columns of its result are in its folder.
"""

from lockstep.model.modes import StreamMode
from lockstep.pipeline import names
from lockstep.pipeline.modes import Mode

PIPELINE = "pizzeria"
"""The folder of its tables, and of its handwritten SQL."""
MANIFEST = "orders_enriched"
"""Its folder below include/sql with query and manifest."""
VERSION_OF_BEFORE = "9d49c806047c4dcc"
"""Of its query and tables as they were when rows, commits and lines began to carry a version: those
that carry none are of this one."""

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
SMALL_TABLES = (TABLES, PIZZAS)
"""Those of them that are small, however many orders there are: they are read whole."""
CAPTURED_TABLES = (*ENRICHMENT_TABLES, OUTBOX)
VIEW = "order_enriched_in"
PUBLICATION = "lockstep"
REPLICATION_SLOT = "lockstep"

ORDERS_MESSAGE_PREFIX = "orders"
# --- Change data capture --------------------------------------------------------------------
TOPIC_PREFIX = "pizzeria"
CHANGE_TOPIC = "lockstep.pizzeria.changes"
CONNECTOR = "pizzeria"


# --- Lakehouse (paths below Settings.lakehouse) ----------------------------------------------
ORDERS_ENRICHED_BATCH = names.table_path(MANIFEST, Mode.BATCH)
ORIGIN = {
    "origin": "struct<table_assignment_id:bigint,pizza_ids:array<int>,"
    "tx_id:bigint,committed_at:timestamp>"
}
"""Name and Delta type of the column that its hourly table has more than another pipeline's.

It is the row of `orders` that the order was made of: what it refers to, the transaction (64 bits)
that wrote it, and when that committed (null when the database does not track that).
"""
ORDER_TIME = "order_time"
"""The column that says which window a row is in."""
HOURLY_PARTITIONS_OF_BEFORE = ("order_date", "order_hour")
"""Of the hourly table as earlier versions wrote it; `lockstep upgrade` writes it as it is now."""


def change_log_table(mode: StreamMode) -> str:
    """The Delta table of a mode's change log."""
    return names.table_path(MANIFEST, Mode(mode))


LOOK_UP = "look_up"
LOOK_UP_TYPE = (
    "struct<table_assignment_id:bigint,pizza_ids:array<bigint>,snapshot:string,wal_lsn:bigint>"
)
"""Name and Delta type of the column that mode lookup's change log has more than the others'.

It is what a raced row is proved by, null in deletes: what the order refers to by its change in the
topic, the snapshot (pg_snapshot) that the look-up read, and a position of the database's log at or
after the commit of all that this snapshot sees.
"""


def look_up_columns(mode: StreamMode) -> dict[str, str]:
    """Name and Delta type of what a mode's change log has more than those of other pipelines."""
    return {LOOK_UP: LOOK_UP_TYPE} if mode is StreamMode.LOOKUP else {}


LOOK_UP_REFERS_TO = ("table_assignment_id", "pizzas")
"""The columns of `orders` that the first fields of look_up are of, in their order."""
SOURCE = "pizzeria"
"""Its folder below include/sources."""
SOURCE_HISTORY = names.history_path(SOURCE)
HISTORY_OF_BEFORE = f"{PIPELINE}/dimension_changes"
"""Of the tables that orders refer to; earlier versions made it, `lockstep upgrade` removes it."""
DIMENSION_TABLES = (TABLE_ASSIGNMENT, CLIENTS, TABLES, PIZZAS)
QUARANTINED_RECORDS = names.quarantine_path(SOURCE)
STREAM_METRICS = names.METRICS_PATH
ORDERS_ENRICHED = names.published_path(MANIFEST)
"""The published table, the one that consumers read."""
CUTOVERS = names.cutovers_path(MANIFEST)
PARITY_LEDGER = names.ledger_path(MANIFEST)
PARITY_DIFFERENCES = names.differences_path(MANIFEST)
DIFFERENCES_KEY_OF_BEFORE = ("order_id",)
"""What its row_key was in earlier versions; `lockstep upgrade` writes it as it is now."""
LAKEHOUSE_TABLES = (
    ORDERS_ENRICHED_BATCH,
    *(change_log_table(mode) for mode in StreamMode),
    SOURCE_HISTORY,
    QUARANTINED_RECORDS,
    STREAM_METRICS,
    PARITY_LEDGER,
    PARITY_DIFFERENCES,
    ORDERS_ENRICHED,
    CUTOVERS,
)
"""Every table by name, for a lakehouse whose folders cannot be listed (an object store)."""


# --- Airflow --------------------------------------------------------------------------------
HOURLY_DAG_ID = "orders_enriched_hourly"
HOURLY_ASSET_URI = "lockstep://pizzeria/orders_enriched_batch"
PARITY_DAG_ID = "orders_parity_hourly"
REPAIR_DAG_ID = "orders_repair"
PUBLISH_DAG_ID = "orders_publish"
CUTOVER_DAG_ID = "orders_cutover"


def stream_dag_id(mode: StreamMode) -> str:
    """The DAG that keeps a stream running."""
    return f"stream_{mode}"
