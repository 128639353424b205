"""A pipeline of another shape: samples of lots, two key columns, names that SQL has to quote."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from lockstep.model.window import Window
from lockstep.pipeline.catalog import Catalog, Column, Table, TableName, write_catalog
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.plan import Plan, plan_named
from lockstep.pipeline.result import write_result
from lockstep.pipeline.result_tables import HOURLY_COLUMNS, HOURLY_PARTITION

from tests.pipeline.project_folder import SOURCE, write

COLUMNS = {
    "The lot": "string",
    "nr": "int",
    "taken_at": "timestamp",
    "weight": "decimal(12,3)",
    "marks": "array<int>",
}
KEY = ("The lot", "nr")
HOUR = Window(datetime(2024, 5, 1, 10, tzinfo=UTC), datetime(2024, 5, 1, 11, tzinfo=UTC))
HOURLY = {**COLUMNS, **HOURLY_COLUMNS}
WHOLE = {name: type_ for name, type_ in HOURLY.items() if name != HOURLY_PARTITION}
"""Of the pipeline without a time."""
RUN = "it's a run"
CHECKS = """\
format_version = 1

[[derived]]
name = "highest mark"
each = "marks"
sql = "max(item)"

[[derived]]
name = "mark_count"
each = "marks"
sql = "count(*)"

[[derived]]
name = "grams"
sql = "weight * 1000 -- of kilograms"

[[check]]
name = "marks plausible"
severity = "warn"
column = "highest mark"
expectation = "ExpectColumnValuesToBeBetween"
arguments = { max_value = 9.5 }
expected = "at most {9.5}"

[[check]]
name = "marked"
severity = "warn"
column = "mark_count"
expectation = "ExpectColumnValuesToBeBetween"
arguments = { min_value = 1 }
expected = "at least one mark"

[[check]]
name = "heavy enough"
severity = "fail"
column = "grams"
expectation = "ExpectColumnValuesToBeBetween"
arguments = { min_value = 250, strict_min = true }
expected = "more than 250 g"

[[check]]
name = "lot of ours"
severity = "fail"
column = "The lot"
expectation = "ExpectColumnValuesToMatchRegex"
arguments = { regex = "^L-" }
expected = "L- first"
"""
_MANIFEST = """\
format_version = 1
sources = ["depot"]
semantics = "as_of_commit"
fact = "samples"
key = ["The lot", "nr"]
"""
_QUERY = "SELECT lot AS `The lot`, nr, at AS taken_at, weight, marks FROM samples\n"
_SAMPLES = Table(
    TableName("public", "samples"),
    (
        Column("lot", "text", False),
        Column("nr", "integer", False),
        Column("at", "timestamp with time zone"),
        Column("weight", "numeric(12,3)"),
        Column("marks", "integer[]"),
    ),
    ("lot", "nr"),
)


def plan_of_samples(folder: Path, checks: str = CHECKS, *, has_time: bool = True) -> Plan:
    """The pipeline's plan, in a project's folder that is written for it."""
    write(folder, "sources/depot/source.toml", SOURCE)
    write(folder, "sources/depot/catalog.lock", write_catalog(Catalog("depot", (_SAMPLES,))))
    manifest = _MANIFEST + 'time = "taken_at"\n' * has_time
    write(folder, "sql/lots/pipeline.toml", manifest)
    write(folder, "sql/lots/query.sql", _QUERY)
    version = plan_named(folder, "lots").version
    write(folder, "sql/lots/result.lock", write_result(COLUMNS, "lots", version))
    write(folder, "sql/lots/checks.toml", checks)
    return plan_named(folder, "lots")


def sample(lot: str | None, nr: int | None, **values: Any) -> dict[str, Any]:
    """A faultless row of HOUR, but for the values."""
    taken_at = HOUR.start + timedelta(minutes=5)
    return {
        "The lot": lot,
        "nr": nr,
        "taken_at": taken_at,
        "weight": Decimal("0.500"),
        "marks": [3, 7],
        "window_date": taken_at.date(),
        "run_id": RUN,
        "cut_snapshot": "800:800:",
        "cut_lsn": 4242,
        **values,
    }


def hourly_table(folder: Path, rows: list[dict], columns: dict[str, str] = HOURLY) -> DeltaTable:
    """Below the folder, as a run that counted these rows in HOUR wrote it."""
    metadata = {
        "run_id": RUN,
        "window": {"start": HOUR.start.isoformat(), "end": HOUR.end.isoformat()},
        "read_mode": "tables",
        "orders_at_cut": len(rows),
        "cut": {"snapshot": "800:800:", "marker_lsn": 4242, "taken_at": HOUR.end.isoformat()},
    }
    uri = str(folder / "lots")
    write_deltalake(
        uri,
        pa.Table.from_pylist(rows, arrow_schema(columns)),
        partition_by=[HOURLY_PARTITION] if HOURLY_PARTITION in columns else None,
        commit_properties=CommitProperties({"userMetadata": json.dumps(metadata)}),
    )
    return DeltaTable(uri)
