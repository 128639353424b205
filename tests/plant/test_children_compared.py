"""The cut sees one change of a child, and not another that was committed before it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RunCommit
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.parity.comparison import Compared, OtherModes, compare
from lockstep.parity.readiness import readiness
from lockstep.parity.sides import Sides
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.result_tables import (
    CHANGE_COLUMNS,
    CHANGE_PARTITION,
    HISTORY_COLUMNS,
    HISTORY_PARTITION,
    HOURLY_COLUMNS,
    HOURLY_PARTITION,
)
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog
from pyspark.sql import SparkSession

from tests.plant.planned import NAMES
from tests.plant.test_children import BILL, ENTRY, plan

pytestmark = pytest.mark.spark
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
WINDOW = Window(NOON, NOON + timedelta(hours=1))
MARKER_LSN = 1000
CUT = "2:10:2"
"""It sees transactions 1 and 3, and not 2."""
RESULT = {NAMES.reading_id: pa.int32(), NAMES.measured_at: pa.timestamp("us", "UTC")}
RESULT["total"] = pa.int64()


def history_row(table: str, commit: int, row: str) -> dict:
    key = row.split(":")[1].split(",", maxsplit=1)[0].strip()
    return {
        "table": table,
        "row_key": f"[{key}]",
        "op": "c",
        "row": row,
        "tx_id": commit,
        "commit_lsn": commit,
        "committed_at": NOON,
    }


HISTORY = [
    history_row(
        str(BILL.name), 1, f'{{"{NAMES.id}": 1, "{NAMES.taken_at}": "2024-05-01T12:00:00Z"}}'
    ),
    history_row(str(ENTRY.name), 2, '{"no": 7, "bill": 1, "amount": 5}'),
    history_row(str(ENTRY.name), 3, '{"no": 8, "bill": 1, "amount": 7}'),
]


def result(total: int | None) -> dict:
    return {NAMES.reading_id: 1, NAMES.measured_at: NOON, "total": total}


def change(commit: int, total: int | None) -> dict:
    """A row of the change log, as of its commit."""
    return {
        **result(total),
        "op": "c" if commit == 1 else "u",
        "tx_id": commit,
        "commit_lsn": commit,
        "is_raced": False,
        **dict.fromkeys(("committed_at", "captured_at", "seen_at", "written_at"), NOON),
        CHANGE_PARTITION: NOON.date(),
    }


def schema(columns: dict[str, str]) -> pa.Schema:
    return pa.schema([*RESULT.items(), *arrow_schema(columns)])


def compared(spark: SparkSession, folder: Path, changes: list[dict]) -> Compared:
    """The hourly run saw entry 8 alone."""
    found = plan(folder / "project")
    settings = Settings(home=folder, project=folder)
    cut = Cut("the run", CUT, MARKER_LSN, NOON)
    run = RunCommit(WINDOW, ReadMode.TABLES, 1, cut, found.version)
    hourly = {
        **result(7),
        HOURLY_PARTITION: NOON.date(),
        "run_id": cut.run_id,
        "cut_snapshot": CUT,
        "cut_lsn": MARKER_LSN,
    }
    write_deltalake(
        settings.table_uri(found.hourly_table),
        pa.Table.from_pylist([hourly], schema(HOURLY_COLUMNS)),
        partition_by=[HOURLY_PARTITION],
        commit_properties=CommitProperties(custom_metadata={"userMetadata": run.as_json()}),
    )
    log_schema, history_schema = schema(CHANGE_COLUMNS), arrow_schema(HISTORY_COLUMNS)
    log = AppendLog(
        settings.table_uri(found.change_log(Mode.TEMPORAL)),
        log_schema,
        CHANGE_PARTITION,
        1,
        description=found.version,
    )
    log.append(pa.Table.from_pylist(changes, log_schema), MARKER_LSN, 0)
    history = AppendLog(settings.table_uri(found.history), history_schema, HISTORY_PARTITION, 1)
    history.append(pa.Table.from_pylist(HISTORY, history_schema), MARKER_LSN, 0)
    ready = readiness(settings, found, WINDOW, Mode.TEMPORAL)
    assert (ready.verdict, ready.reason) == (None, "")
    return compare(spark, Sides(settings, found, WINDOW, Mode.TEMPORAL, ready), OtherModes())


def test_what_the_cut_sees_is_judged_by_the_query_and_the_line_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = compared(spark, tmp_path, [change(1, None), change(2, 5), change(3, 12)])
    (one,) = found.differing
    assert str(one.kind) == "dimension_drift"
    assert [(cause.tx_id, cause.is_in_cut) for cause in one.causes["total"]] == [(2, False)]


def test_a_stream_that_lacks_the_change_which_the_cut_sees_is_at_fault(
    spark: SparkSession, tmp_path: Path
) -> None:
    found = compared(spark, tmp_path, [change(1, None), change(2, 5)])
    (one,) = found.differing
    assert str(one.kind) == "value_mismatch"
