"""The names of the pizzeria: its database's tables, and all that is named after its pipeline.

The library has none of them: it takes them out of the project's folder.
"""

from enum import StrEnum

from lockstep.pipeline.modes import STREAM_MODES
from lockstep.pipeline.names import METRICS_PATH
from lockstep.pipeline.pipeline_names import PipelineNames

NAMES = PipelineNames(
    pipeline="orders_enriched",
    source="pizzeria",
    database="pizzeria",
    slot="lockstep",
    publication="lockstep",
    connector="pizzeria",
    modes=STREAM_MODES,
)
MANIFEST, SOURCE = NAMES.pipeline, NAMES.source


class Login(StrEnum):
    """The roles that sign in to the pizzeria's database: `logins` of its source.toml."""

    OWNER = "pizzeria_owner"
    SHOP = "shop"


# --- PostgreSQL -----------------------------------------------------------------------------
DATABASE = NAMES.database
ORDERS, TABLE_ASSIGNMENT, CLIENTS, TABLES, PIZZAS = (
    "orders",
    "table_assignment",
    "clients",
    "tables",
    "pizzas",
)
DIMENSION_TABLES = (TABLE_ASSIGNMENT, CLIENTS, TABLES, PIZZAS)
ENRICHMENT_TABLES = (ORDERS, *DIMENSION_TABLES)
OUTBOX = "orders_outbox"
CAPTURED_TABLES = (*ENRICHMENT_TABLES, OUTBOX)
VIEW = "order_enriched_in"
PUBLICATION = NAMES.publication
REPLICATION_SLOT = NAMES.slot
ORDERS_MESSAGE_PREFIX = "orders"

# --- Change data capture --------------------------------------------------------------------
TOPIC_PREFIX = CONNECTOR = NAMES.connector
CHANGE_TOPIC = NAMES.change_topic

# --- Lakehouse ------------------------------------------------------------------------------
ORDERS_ENRICHED_BATCH = NAMES.hourly_table
ORDER_TIME = "order_time"
change_log_table = NAMES.change_log
SOURCE_HISTORY = NAMES.history
QUARANTINED_RECORDS = NAMES.quarantine
STREAM_METRICS = METRICS_PATH
ORDERS_ENRICHED = NAMES.published_table
CUTOVERS = NAMES.cutovers
PARITY_LEDGER = NAMES.ledger
PARITY_DIFFERENCES = NAMES.differences
LAKEHOUSE_TABLES = NAMES.tables

# --- Airflow --------------------------------------------------------------------------------
HOURLY_DAG_ID = NAMES.hourly_dag_id
HOURLY_ASSET_URI = NAMES.hourly_asset_uri
PARITY_DAG_ID = NAMES.parity_dag_id
REPAIR_DAG_ID = NAMES.repair_dag_id
PUBLISH_DAG_ID = NAMES.publish_dag_id
CUTOVER_DAG_ID = NAMES.cutover_dag_id
stream_dag_id = NAMES.stream_dag_id
