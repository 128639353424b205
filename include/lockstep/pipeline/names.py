"""The names that sources and pipelines may have, and all names that are made of them.

A name has no `__`, and begins and ends with no `_`: so `__` separates names where only letters,
digits and `_` may stand (slots, SQL), and two different addresses never have the same name. Where
more may stand, `.` or `/` separates. Nothing is created or asked for here.
"""

import hashlib
import re
from enum import StrEnum

from lockstep.pipeline.modes import Mode

NAME_CHARACTERS_MAX = 40
"""A slot's name has 63 bytes, of which the prefix takes 10, and the database at least 13."""
NAME = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
PREFIX = "lockstep"
"""What a database, a Kafka or a Connect that others use too shows to be ours begins so."""
RESERVED = {
    **{str(mode): "a mode" for mode in Mode},
    "history": "the writer of a source's history, which is started and stopped as a mode is",
    "publisher": "the writer of the published table, which is started and stopped as a mode is",
    "all": "every pipeline or mode, in commands",
    PREFIX: "the beginning of generated names",
}
"""Names that no source and no pipeline may have: what each of them means already."""
POSTGRES_NAME_BYTES_MAX = 63
METRICS_PATH = f"{PREFIX}/stream_metrics"
"""The table with the figures of every stream, below the lakehouse; no pipeline has this folder."""
SEPARATOR = "__"
"""Between names where only letters, digits and `_` may stand."""
_DIGEST_CHARACTERS = 10


class Job(StrEnum):
    """What Airflow does for a pipeline apart from its modes; none is the name of one."""

    PARITY = "parity"
    REPAIR = "repair"
    PUBLISH = "publish"
    CUTOVER = "cutover"


class Mark(StrEnum):
    """What a commit of a stream's table says of a source.

    FRONTIER: the commit LSN up to which the table has all. RESUME_OFFSET: the offset of the change
    topic from which reading goes on. CAPTURE: the number of the capture that both are of.
    """

    FRONTIER = "frontier"
    RESUME_OFFSET = "resume_offset"
    CAPTURE = "capture"


def name_fault(name: str) -> str:
    """What is wrong with the name of a source or pipeline, and what to do; empty if nothing."""
    if name in RESERVED:
        return f"{name} is reserved: it is {RESERVED[name]}; choose another name"
    if NAME.fullmatch(name) and len(name) <= NAME_CHARACTERS_MAX:
        return ""
    return (
        f"{name} cannot be a name: it is to have at most {NAME_CHARACTERS_MAX} of a-z, 0-9 and _, "
        "a letter first, no _ at the end and no two in a row"
    )


def quoted(name: str) -> str:
    """A name in Spark's SQL, whatever its characters."""
    escaped = name.replace("`", "``")
    return f"`{escaped}`"


def text_literal(text: str) -> str:
    """A text in Spark's SQL, whatever its characters."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def sql_name(table: str) -> str:
    """What a table of the lakehouse is called in SQL: the last step of its path or URI."""
    return table.rstrip("/").rsplit("/", 1)[-1]


def address(pipeline: str, mode: Mode) -> str:
    """`orders__lookup`: what the result of a mode is called in SQL; at most 53 characters."""
    return SEPARATOR.join((pipeline, mode))


def table_path(pipeline: str, mode: Mode) -> str:
    """`orders/orders__lookup`: the Delta table of a mode's result, below the lakehouse.

    A pipeline's tables are in a folder of its own, and the last step alone is the name in SQL.
    """
    return f"{pipeline}/{address(pipeline, mode)}"


def published_path(pipeline: str) -> str:
    """`orders/orders`: the published table, the one that consumers read, below the lakehouse."""
    return f"{pipeline}/{pipeline}"


def ledger_path(pipeline: str) -> str:
    """`orders/orders__ledger`: the table with a line for each comparison."""
    return f"{pipeline}/{pipeline}{SEPARATOR}ledger"


def differences_path(pipeline: str) -> str:
    """`orders/orders__differences`: the table with the rows that comparisons found to differ."""
    return f"{pipeline}/{pipeline}{SEPARATOR}differences"


def cutovers_path(pipeline: str) -> str:
    """`orders/orders__cutovers`: the table with a line for each switch of the published table."""
    return f"{pipeline}/{pipeline}{SEPARATOR}cutovers"


def quarantine_path(source: str) -> str:
    """`shop/shop__quarantine`: the table with the records of a change topic that were given up."""
    return f"{source}/{source}{SEPARATOR}quarantine"


def history_address(source: str) -> str:
    """`shop__history`: what the history of a source, and its writer, are called.

    No pipeline has the name of a source, nor is `history` a mode.
    """
    return SEPARATOR.join((source, "history"))


def history_path(source: str) -> str:
    """`shop/shop__history`: the Delta table of a source's history, below the lakehouse."""
    return f"{source}/{history_address(source)}"


def mode_dag_id(pipeline: str, mode: Mode) -> str:
    """`orders__lookup`: the DAG that runs a mode. Airflow allows 250 of A-Z, a-z, 0-9, _ . -."""
    return address(pipeline, mode)


def job_dag_id(pipeline: str, job: Job) -> str:
    """`orders__parity`: the DAG of a job; never that of a mode."""
    return SEPARATOR.join((pipeline, job))


def change_topic(source: str) -> str:
    """`lockstep.shop.changes`: the Kafka topic of a source's changes.

    Kafka allows 249 of A-Z, a-z, 0-9, _ . -, and takes `.` and `_` for the same in metrics: no two
    of these names are the same even so.
    """
    return f"{PREFIX}.{source}.changes"


def side_topic(source: str, number: int) -> str:
    """`lockstep.shop.side_1`: the topic with the rows of a source's side snapshot; also the name of
    the connector that takes it."""
    return f"{PREFIX}.{source}.side_{number}"


def side_slot(slot: str) -> str:
    """`lockstep__side__3f2a91c0d7`: the slot of a source's side snapshot, while that is taken.

    slot: the source's own, which may have as many bytes as a name can.
    """
    digest = hashlib.sha256(slot.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return SEPARATOR.join((PREFIX, "side", digest))


def source_of(change_topic: str) -> str:
    """The source whose changes a topic has: the inverse of change_topic."""
    return change_topic.removeprefix(f"{PREFIX}.").removesuffix(".changes")


def connector(source: str) -> str:
    """`lockstep.shop`: the connector of a source in Kafka Connect, and Debezium's topic.prefix."""
    return f"{PREFIX}.{source}"


def publication(source: str) -> str:
    """`lockstep__shop`: the publication of a source, in its own database; needs no quotes."""
    return f"{PREFIX}{SEPARATOR}{source}"


def slot(database: str, source: str) -> str:
    """`lockstep__shop__sales`: the replication slot of a source in a database, at most 63 bytes.

    PostgreSQL keeps slots for the whole cluster, allows a-z, 0-9 and _, and a database may have any
    name. One that is not as ours are, or too long, is there as a digit and 40 bits of its digest.
    """
    readable = SEPARATOR.join((PREFIX, source, database))
    if NAME.fullmatch(database) and len(readable) <= POSTGRES_NAME_BYTES_MAX:
        return readable
    digest = hashlib.sha256(database.encode()).hexdigest()[:_DIGEST_CHARACTERS]
    return SEPARATOR.join((PREFIX, source, f"0{digest}"))


def application_id(source: str, mark: Mark) -> str:
    """`lockstep/shop/frontier`: of an application transaction of a stream's Delta table."""
    return f"{PREFIX}/{source}/{mark}"


def message_prefix(pipeline: str) -> str:
    """`lockstep.message.orders`: of the logical messages that mode message reads."""
    return f"{PREFIX}.message.{pipeline}"


def publish_function(pipeline: str) -> str:
    """`lockstep_publish__orders`: the database's function by which an application publishes rows.

    At most 58 bytes; needs no quotes.
    """
    return SEPARATOR.join((f"{PREFIX}_publish", pipeline))


def time_trigger(pipeline: str) -> str:
    """`lockstep_time__orders`: the trigger, with its function, that keeps a fact's time as it is.

    At most 55 bytes; needs no quotes.
    """
    return SEPARATOR.join((f"{PREFIX}_time", pipeline))


def cut_prefix(source: str) -> str:
    """`lockstep.cut.shop`: of the message that marks an hourly run's cut in the log."""
    return f"{PREFIX}.cut.{source}"


def heartbeat_prefix(source: str) -> str:
    """`lockstep.heartbeat.shop`: of the message that keeps a quiet source's frontier moving."""
    return f"{PREFIX}.heartbeat.{source}"
