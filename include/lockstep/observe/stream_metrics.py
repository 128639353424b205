"""The Delta table of what each stream said of itself, a row every half a minute, for 30 days.

mode is a stream's mode, or its address (`orders__outbox`) where its pipeline is not the project's
own choice.

Several drivers on one machine write it, by turns: who finds the table's lock taken leaves its turn
out. A row is a measurement: one that is lost is a gap, and none is ever written twice.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lockstep.errors import LockstepError
from lockstep.observe.latency import HOPS
from lockstep.pipeline.names import METRICS_PATH
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.supervise.desired import read_desired
from lockstep.supervise.folder import name_in_project
from lockstep.supervise.heartbeat import Heartbeat, Latency, Percentiles

log = logging.getLogger(__name__)

PERIOD_SECONDS = 30.0
KEPT_DAYS = 30
FILES_MAX = 150
"""Above this the files of a day become one: about once an hour, and then as many as days."""
VACUUM_HOURS = 24
"""Older versions of the table are given up, as with the other tables of the streams."""

_TIME = pa.timestamp("us", "UTC")
_QUANTILES = tuple(field.name for field in fields(Percentiles))
LATENCY_COLUMNS = tuple(
    f"latency_{part}{quantile}_seconds"
    for part in ("", *(f"{hop}_" for hop in HOPS))
    for quantile in _QUANTILES
)
"""latency_p50_seconds of the total, then latency_capture_p50_seconds and so on."""
SCHEMA = pa.schema(
    [
        ("measured_at", _TIME),
        ("mode", pa.string()),
        ("pid", pa.int64()),
        ("driver_started_at", _TIME),
        ("state", pa.string()),
        ("frontier", pa.int64()),
        ("frontier_committed_at", _TIME),
        ("next_offset", pa.int64()),
        ("end_offset", pa.int64()),
        ("last_progress_at", _TIME),
        ("rows_total", pa.int64()),
        ("rows_per_second", pa.float64()),
        ("lag_bytes", pa.int64()),
        ("lag_seconds", pa.float64()),
        *((name, pa.float64()) for name in LATENCY_COLUMNS),
        ("micro_batch_seconds", pa.float64()),
        ("state_rows", pa.int64()),
        ("driver_memory_bytes", pa.int64()),
        ("incomplete_transactions", pa.int64()),
        ("restarts", pa.int64()),
        ("error", pa.string()),
        ("measured_date", pa.date32()),
    ]
)
"""measured_date, the UTC day of measured_at, is the partition. What is not known is null.

A table made by an earlier version keeps the columns that it had, and gets those that it lacks.
"""
_CONFIGURATION = {
    "delta.logRetentionDuration": f"interval {VACUUM_HOURS} hours",
    "delta.deletedFileRetentionDuration": f"interval {VACUUM_HOURS} hours",
}


class StreamMetrics:
    """Writes the heartbeats of one driver's queries, every half a minute at the most."""

    def __init__(self, settings: Settings, period_seconds: float = PERIOD_SECONDS) -> None:
        self._settings = settings
        self._period_seconds = period_seconds
        self._due = time.monotonic() + period_seconds

    def write_when_due(self, heartbeats: Sequence[Heartbeat]) -> bool:
        """Append a row for each heartbeat when the time has come; returns whether it did.

        Never raises, be the table busy or a row impossible: that is logged, and tried
        again at the next turn, for a stream must not end because it cannot be measured.
        """
        if not heartbeats or time.monotonic() < self._due:
            return False
        self._due = time.monotonic() + self._period_seconds
        try:
            append(self._settings, heartbeats)
        except Exception as error:
            log.warning("no row was added to %s this time: %s", METRICS_PATH, error)
            return False
        return True


def append(settings: Settings, heartbeats: Sequence[Heartbeat]) -> None:
    """Add a row for each heartbeat in one commit; now and then make few files of many.

    Raises WriterBusyError when another process writes the table, else what LakehouseError says.
    """
    uri = settings.table_uri(METRICS_PATH)
    rows = pa.Table.from_pylist([_row(settings, one) for one in heartbeats], SCHEMA)
    with sole_writer(settings, METRICS_PATH):
        table = _opened(uri)
        write_deltalake(table, rows, mode="append", schema_mode="merge")
        if len(table.file_uris()) > FILES_MAX:
            _keep_bounded(table, max(one.beat_at for one in heartbeats))


def _opened(uri: str) -> DeltaTable:
    return DeltaTable.create(
        uri, SCHEMA, mode="ignore", partition_by=["measured_date"], configuration=_CONFIGURATION
    )


def _keep_bounded(table: DeltaTable, as_of: datetime) -> None:
    """One file a day, KEPT_DAYS days, and no log or file that no kept version needs."""
    oldest = (as_of - timedelta(days=KEPT_DAYS)).date()
    table.delete(f"measured_date < DATE '{oldest.isoformat()}'")
    table.optimize.compact()
    table.vacuum(VACUUM_HOURS, dry_run=False, full=True)  # as sinks.append_log.tidy does
    table.create_checkpoint()
    table.cleanup_metadata()


def _row(settings: Settings, beat: Heartbeat) -> dict[str, object]:
    measured_at = beat.beat_at.astimezone(UTC)
    same_name = {name: getattr(beat, name) for name in SCHEMA.names if hasattr(beat, name)}
    return {
        **same_name,
        "mode": name_in_project(settings, beat.mode),
        **_latency_columns(beat.latency),
        "measured_at": measured_at,
        "measured_date": measured_at.date(),
        "incomplete_transactions": len(beat.incomplete),
        "restarts": _restarts(settings, beat.mode),
        "error": f"{beat.error.name}: {beat.error.message}" if beat.error else None,
    }


def _restarts(settings: Settings, mode: str) -> int | None:
    """None when the mode's desired state cannot be read: the other modes have their rows."""
    try:
        desired = read_desired(settings, mode)
    except (LockstepError, OSError):
        return None
    return desired.restarts if desired else 0


def _latency_columns(latency: Latency | None) -> dict[str, float | None]:
    if latency is None:
        return dict.fromkeys(LATENCY_COLUMNS)
    parts = (latency, *(latency.hops.get(hop) for hop in HOPS))
    values = [getattr(part, q) if part else None for part in parts for q in _QUANTILES]
    return dict(zip(LATENCY_COLUMNS, values, strict=True))
