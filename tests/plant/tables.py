"""Both sides of a history of the plant as Delta tables, to be tampered with before they are there.

The columns are those that the hourly run, the streams and the source's history write.
"""

import json
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RunCommit
from lockstep.model.modes import ReadMode
from lockstep.pipeline.catalog import Column
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan
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

from tests.plant.history import MARKER_LSN, WINDOW, History
from tests.plant.planned import FACT, NAMES, SENSOR, SITE, planned

MODE = Mode.TEMPORAL
SITE_BY_NUMBER = replace(
    SITE, columns=(Column(NAMES.id, "integer", False), *SITE.columns), key=(NAMES.id,)
)
"""Found by a column that is not its key."""
COLUMNS = {
    "fact": {"key": "id", "sensor_id": "sensor_id", "value": "value", "taken_at": "taken_at"},
    "sensor": {
        "key": "id",
        "serial": "serial",
        "name": "name",
        "factor": "factor",
        "site_code": "site_code",
    },
    "site": {"key": "id", "code": "code", "city": "city"},
}
"""The logical name of each column of the history, by its name in tests.plant.history."""
TABLES = {"fact": FACT.name, "sensor": SENSOR.name, "site": SITE.name}
OUTPUTS = {
    "reading_id": pa.string(),
    "measured_at": pa.timestamp("us", "UTC"),
    "sensor_name": pa.string(),
    "city": pa.string(),
    "amount": pa.decimal128(18, 6),
}
TAKEN_AT = WINDOW.end + timedelta(minutes=5)


def plan_by_number(folder: Path, **texts: str) -> Plan:
    """The plant's plan, its sites with a key that the query does not read."""
    return planned(folder, FACT, SENSOR, SITE_BY_NUMBER, **texts)


def result_schema(columns: dict[str, str]) -> pa.Schema:
    """The author's columns, then these."""
    author = [(NAMES.names[name], type_) for name, type_ in OUTPUTS.items()]
    return pa.schema([*author, *arrow_schema(columns)])


class Tables:
    """hourly, log, history: the rows, by the logical names."""

    def __init__(self, history: History, plan: Plan, home: Path) -> None:
        self.of, self.plan = history, plan
        self.hourly = history.hourly_rows()
        self.log = history.change_log()
        self.history = list(history.history_rows())
        self.settings = Settings(home=home, project=home)

    def change(self, key: str) -> dict:
        """The only change of a reading in the change log."""
        (found,) = (one for one in self.log if one["reading_id"] == key)
        return found

    def row(self, key: str) -> dict:
        """The reading's row in the hourly table."""
        return next(one for one in self.hourly if one["reading_id"] == key)

    def write(self, reached: int = MARKER_LSN, history_reached: int = MARKER_LSN) -> None:
        """reached, history_reached: the frontiers."""
        self.write_hourly()
        self.write_log(reached)
        self.write_history(history_reached)

    def write_hourly(self, mode: str = "error") -> None:
        """As the run leaves it. mode: of delta-rs, `overwrite` for a run again."""
        cut = Cut("the run", self.of.snapshot, MARKER_LSN, TAKEN_AT)
        own = {"run_id": cut.run_id, "cut_snapshot": cut.snapshot, "cut_lsn": cut.marker_lsn}
        rows = [
            self._named(row, own | {"window_date": row["measured_at"].date()})
            for row in self.hourly
        ]
        run = RunCommit(WINDOW, ReadMode.TABLES, len(rows), cut, self.plan.version)
        write_deltalake(
            self.settings.table_uri(self.plan.hourly_table),
            pa.Table.from_pylist(rows, result_schema(HOURLY_COLUMNS)),
            mode=mode,
            partition_by=[HOURLY_PARTITION],
            commit_properties=CommitProperties(custom_metadata={"userMetadata": run.as_json()}),
        )

    def write_log(self, reached: int = MARKER_LSN) -> None:
        rows = [
            self._named(row, row | {"commit_date": row["committed_at"].date()}) for row in self.log
        ]
        self._append(self.plan.change_log(MODE), rows, result_schema(CHANGE_COLUMNS), reached)

    def write_history(self, reached: int = MARKER_LSN) -> None:
        rows = [
            row | {"table": str(TABLES[row["table"]]), "row": row["row"] and _json(row)}
            for row in self.history
        ]
        self._append(self.plan.history, rows, arrow_schema(HISTORY_COLUMNS), reached)

    def _append(self, path: str, rows: list[dict], schema: pa.Schema, reached: int) -> None:
        partition = HISTORY_PARTITION if "table" in schema.names else CHANGE_PARTITION
        uri, version = self.settings.table_uri(path), self.plan.version
        log = AppendLog(uri, schema, partition, 1, description=version)
        log.append(pa.Table.from_pylist(rows, schema), reached, 0)

    def _named(self, row: dict, more: dict) -> dict:
        return more | {NAMES.names[name]: row[name] for name in OUTPUTS}


def _json(row: dict) -> str:
    """As Debezium sends it, and the columns that no query reads as well."""
    names = COLUMNS[row["table"]]
    values = {NAMES.names[names[name]]: value for name, value in row["row"].items()}
    return json.dumps(values, default=_sent)


def _sent(value: object) -> str:
    return str(value) if isinstance(value, Decimal) else f"{value:%Y-%m-%dT%H:%M:%S.%fZ}"
