"""The comparison of another pipeline's rows: a key of two columns, doubles."""

import math
from datetime import timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lockstep.parity import bindings
from lockstep.parity.differences import BATCH_ROWS, COMMIT, STREAM_CHANGES, differences_sql
from lockstep.parity.points import Cuts
from lockstep.parity.sides import Sides
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.result_tables import CHANGE_COLUMNS
from lockstep.settings import Settings
from pyspark.sql import SparkSession

from tests.parity.history import WINDOW, Shop
from tests.parity.parcels import COLUMNS, parcels
from tests.parity.planted_faults import Tables

pytestmark = pytest.mark.spark


@pytest.mark.usefixtures("rows_read")
def test_rows_are_found_by_time_and_their_changes_by_a_key_of_two_columns(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan, settings = parcels(tmp_path / "project"), Settings(home=tmp_path)
    inside, before = WINDOW.start, WINDOW.start - timedelta(days=1)
    held = {"group": "a", "number": 1, "packed": inside, "weight": Decimal("1.50")}
    rows = [held, held | {"number": 2, "packed": before}]
    hourly = [row | {"window_date": row["packed"].date()} for row in rows]
    table = pa.Table.from_pylist(hourly, arrow_schema(COLUMNS | {"window_date": "date"}))
    write_deltalake(settings.table_uri(plan.hourly_table), table)
    gone = dict.fromkeys(COLUMNS) | {"group": "a", "number": 1}
    streamed = held | {"group": "b", "number": 9}
    others = [held | {"group": "b", "packed": before}, held | {"number": 2, "packed": before}]
    log = pa.Table.from_pylist(
        [row | {"commit_lsn": 1} for row in (held, gone, streamed, *others)],
        arrow_schema(COLUMNS | CHANGE_COLUMNS),
    )
    write_deltalake(settings.table_uri(plan.change_log(Mode.TEMPORAL)), log)
    ready = Tables(Shop(1).evening(1), tmp_path).ready()
    sides = Sides(settings, plan, WINDOW, Mode.TEMPORAL, ready)
    assert sides.differing_columns() == []
    session = spark.newSession()
    bindings.bind_both_sides(session, sides)
    (batch,) = session.table("batch_rows").toArrow().to_pylist()
    changes = session.table("stream_changes").orderBy("k0", "c0").toArrow().to_pylist()
    values = {"c0": inside, "c1": Decimal("1.50"), "origin": None}
    assert batch == {"k0": "a", "k1": 1, "batch": values, "batch_rows": 1}
    assert [(one["k0"], one["k1"], one["c0"]) for one in changes] == [
        ("a", 1, None),
        ("a", 1, inside),
        ("b", 9, inside),
    ]


def bind(session: SparkSession, weight: str, batch: list[dict], changes: list[dict]) -> None:
    """Both sides as the comparison binds them; weight: the type of the second value."""
    hourly = [{"k0": one["k0"], "k1": one["k1"], "batch": one, "batch_rows": 1} for one in batch]
    keys = {"k0": "string", "k1": "int"}
    of_batch = f"struct<c0:timestamp,c1:{weight},origin:struct<tx_id:bigint>>"
    of_commit = {name: CHANGE_COLUMNS[name] for name in (*COMMIT, "is_raced")}
    log = keys | {"c0": "timestamp", "c1": weight} | of_commit | {"look_up": "string"}
    for view, rows, kinds in (
        (BATCH_ROWS, hourly, keys | {"batch_rows": "bigint", "batch": of_batch}),
        (STREAM_CHANGES, changes, log),
    ):
        bound = pa.Table.from_pylist(rows, arrow_schema(kinds))
        session.createDataFrame(bound).createOrReplaceTempView(view)


@pytest.mark.parametrize(
    ("of_stream", "of_batch", "epsilon", "differs"),
    [
        (1.0, 1.0 + 1e-12, "1e-9", False),
        (-1e300, -1e300 * (1 + 1e-12), "1e-9", False),
        (1.0, 1.0 + 1e-12, "0", True),
        (1.0, 1.0 + 1e-6, "1e-9", True),
        (1.0, -1.0, "1e-9", True),
        (0.0, 1e-300, "1e-9", True),
        (math.inf, 1.0, "1e-9", True),
        (math.inf, math.inf, "1e-9", False),
        (math.nan, 1.0, "1e-9", True),
        (math.nan, math.nan, "1e-9", False),
        (None, 1.0, "1e-9", True),
        (None, None, "1e-9", False),
    ],
)
def test_doubles_are_the_same_as_near_as_the_manifest_tolerates(
    spark: SparkSession,
    tmp_path: Path,
    of_stream: float | None,
    of_batch: float | None,
    epsilon: str,
    differs: bool,
) -> None:
    plan = parcels(
        tmp_path, f"tolerate = {{ float_epsilon = {epsilon} }}\n", COLUMNS | {"weight": "double"}
    )
    held = {"k0": "a", "k1": 7, "c0": WINDOW.start}
    change = held | {"c1": of_stream, "op": "c", "tx_id": 5, "commit_lsn": 8, "is_raced": False}
    session = spark.newSession()
    bind(session, "double", [held | {"c1": of_batch}], [change])
    (judged,) = session.sql(differences_sql(plan, Cuts("10:10:", {}).snapshots, WINDOW)).collect()
    assert judged["class"] == ("value_mismatch" if differs else None)
    assert judged["differing"] == ([1] if differs else [])


def test_of_a_key_of_two_columns_the_repaired_rows_are_judged_at_their_repair(
    spark: SparkSession, tmp_path: Path
) -> None:
    plan = parcels(tmp_path / "project")
    session = spark.newSession()
    late = {"op": "u", "tx_id": 15, "commit_lsn": 16, "is_raced": False}
    first = late | {"op": "c", "tx_id": 5, "commit_lsn": 8}
    held = {"k0": "it's", "k1": 7, "c0": WINDOW.start, "c1": Decimal("1.50")}
    row, other = held | {"c1": Decimal("2.00")}, held | {"k1": 8}
    stream = [held | first, row | late, other | first, other | {"c1": Decimal("2.00")} | late]
    bind(session, "decimal(8,2)", [row, other], stream)
    cuts = Cuts("10:10:", {plan.row_keys.read('["it\'s",7]'): "20:20:"})
    bindings.bind_repaired(session, plan, cuts)
    judged = session.sql(differences_sql(plan, cuts.snapshots, WINDOW)).collect()
    assert {one["k1"]: (one["class"], one["stream"]["tx_id"]) for one in judged} == {
        7: (None, 15),
        8: ("changed_after_cut", 5),
    }
