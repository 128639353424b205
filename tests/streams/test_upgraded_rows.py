"""The tables of an earlier version: what `lockstep upgrade` makes of their rows and columns."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from lockstep.errors import LakehouseError, WriterBusyError
from lockstep.ledger.book import append_rows
from lockstep.model.modes import StreamMode
from lockstep.pipeline.delta_types import arrow_type
from lockstep.pipeline.result_tables import ORIGIN
from lockstep.publish.step import step
from lockstep.settings import Settings
from lockstep.sinks.append_log import APPEND_ONLY, Reached, reached_of
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.hourly_runs import (
    HOURLY_PARTITIONS_OF_BEFORE,
    SAME_ROWS,
    windows_since,
    written_by,
)
from lockstep.streams import upgrade
from pizzeria.names import (
    ORDER_TIME,
    ORDERS_ENRICHED_BATCH,
    PARITY_DIFFERENCES,
)

from tests.publish.shop import PLAN, Shop, hour, published
from tests.streams.debezium import NOON
from tests.streams.topics import open_log, settings_of


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    """Its hourly table has five hours on two days, in partitions of before, and is published."""
    shop = Shop(settings_of(tmp_path))
    for number in range(5):
        shop.order(number)
        shop.run(hour(number))
    shop.order(1)
    shop.run(hour(1))
    step(shop.settings, PLAN)
    lay_out_as_before(shop.settings)
    return shop


def lay_out_as_before(settings: Settings) -> None:
    """In a commit of the same rows, so that the runs' commits stay in the history."""
    table = hourly_table(settings)
    rows = table.to_pyarrow_table()
    times = rows["order_time"].to_pylist()
    rows = rows.drop_columns("window_date")
    rows = rows.append_column("order_date", pa.array([time.date() for time in times]))
    rows = rows.append_column("order_hour", pa.array([time.hour for time in times], pa.int32()))
    write_deltalake(
        table,
        rows,
        mode="overwrite",
        schema_mode="overwrite",
        partition_by=list(HOURLY_PARTITIONS_OF_BEFORE),
        commit_properties=CommitProperties(custom_metadata={SAME_ROWS: "as before"}),
    )


def hourly_table(settings: Settings) -> DeltaTable:
    return DeltaTable(settings.table_uri(ORDERS_ENRICHED_BATCH))


def rows_of(settings: Settings) -> list[dict]:
    rows = hourly_table(settings).to_pyarrow_table().sort_by("order_id").to_pylist()
    added = {*HOURLY_PARTITIONS_OF_BEFORE, "window_date"}
    return [{name: value for name, value in row.items() if name not in added} for row in rows]


def test_the_hourly_table_gets_a_partition_for_each_day_and_keeps_rows_and_history(
    shop: Shop,
) -> None:
    settings = shop.settings
    rows, version = rows_of(settings), hourly_table(settings).version()
    of_consumers = published(settings)
    (what,) = upgrade.upgrade(settings)
    assert "a partition for each of 2 days" in what
    table = hourly_table(settings)
    assert (table.version(), table.metadata().partition_columns) == (version + 1, ["window_date"])
    assert len(table.file_uris()) == 2
    assert rows_of(settings) == rows
    assert [written_by(table, hour(number)).run.window for number in range(5)] == [
        hour(number) for number in range(5)
    ]
    assert windows_since(table, version, ORDER_TIME) == []
    step(settings, PLAN)
    assert published(settings) == of_consumers
    assert upgrade.upgrade(settings) == []


def test_an_upgraded_hourly_table_is_written_and_published_as_before(shop: Shop) -> None:
    upgrade.upgrade(shop.settings)
    late = shop.order(3)
    shop.run(hour(3))
    step(shop.settings, PLAN)
    assert late in published(shop.settings)
    assert len(rows_of(shop.settings)) == 7


def test_an_hourly_table_of_before_is_refused_with_the_remedy(shop: Shop) -> None:
    table = hourly_table(shop.settings)
    for read in (
        lambda: written_by(table, hour(1)),
        lambda: windows_since(table, None, ORDER_TIME),
    ):
        with pytest.raises(LakehouseError, match="lockstep upgrade"):
            read()


def test_the_hourly_table_stays_while_it_is_written(shop: Shop) -> None:
    with sole_writer(shop.settings, ORDERS_ENRICHED_BATCH), pytest.raises(WriterBusyError):
        upgrade.upgrade(shop.settings)
    assert "order_hour" in hourly_table(shop.settings).metadata().partition_columns


def test_an_hourly_table_whose_upgrade_failed_is_as_it_was(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, version = rows_of(shop.settings), hourly_table(shop.settings).version()

    def full_disk(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(upgrade, "write_deltalake", full_disk)
        with pytest.raises(LakehouseError, match="No space left"):
            upgrade.upgrade(shop.settings)
    assert (rows_of(shop.settings), hourly_table(shop.settings).version()) == (rows, version)
    upgrade.upgrade(shop.settings)
    assert rows_of(shop.settings) == rows


def test_the_differences_of_before_name_their_rows_by_key(tmp_path: Path) -> None:
    """tests/ledger/test_differences_of_before.py has the rest."""
    settings = settings_of(tmp_path)
    columns = {"check_id": "string", "order_id": "bigint"}
    columns |= dict.fromkeys(("mode", "class", "differing_columns"), "string")
    columns |= dict.fromkeys(("batch", "stream", "evidence"), "string")
    columns["window_start"] = "timestamp"
    append_rows(settings, PARITY_DIFFERENCES, columns, [{"check_id": "one", "order_id": 7}])
    (what,) = upgrade.upgrade(settings)
    assert "row_key" in what
    table = DeltaTable(settings.table_uri(PARITY_DIFFERENCES)).to_pyarrow_table()
    assert table["row_key"].to_pylist() == ["[7]"]
    assert upgrade.upgrade(settings) == []


REFERS_TO = [("table_assignment_id", pa.int64()), ("pizza_ids", pa.list_(pa.int64()))]
"""What origin and look_up also had in versions of before."""


def of_before(column: pa.ChunkedArray) -> pa.StructArray:
    """The structs with these fields first; null where they are."""
    of_now = column.combine_chunks()
    fields = [pa.field(name, type_) for name, type_ in REFERS_TO]
    nulls = [pa.nulls(len(of_now), field.type) for field in fields]
    return pa.StructArray.from_arrays(
        [*nulls, *of_now.flatten()], fields=[*fields, *of_now.type], mask=of_now.is_null()
    )


def write_as_before(table: DeltaTable, column: str) -> pa.Table:
    """In a commit of the same rows; returns those of before."""
    rows = table.to_pyarrow_table()
    place = rows.column_names.index(column)
    write_deltalake(
        table,
        rows.set_column(place, column, of_before(rows[column])),
        mode="overwrite",
        schema_mode="overwrite",
        commit_properties=CommitProperties(custom_metadata={SAME_ROWS: "as before"}),
    )
    return rows


def test_an_hourly_table_whose_origin_says_more_is_refused_and_written_again(
    shop: Shop,
) -> None:
    settings = shop.settings
    upgrade.upgrade(settings)
    rows = hourly_table(settings).to_pyarrow_table()
    origin = pa.array(
        [None, *({"tx_id": n, "committed_at": NOON} for n in range(1, rows.num_rows))],
        arrow_type(ORIGIN["origin"]),
    )
    if "origin" in rows.column_names:
        rows = rows.drop_columns("origin")
    rows = rows.append_column("origin", origin)
    write_deltalake(
        hourly_table(settings),
        rows,
        mode="overwrite",
        schema_mode="overwrite",
        commit_properties=CommitProperties(custom_metadata={SAME_ROWS: "with origin"}),
    )
    held = rows_of(settings)
    write_as_before(hourly_table(settings), "origin")
    with pytest.raises(LakehouseError, match="lockstep upgrade"):
        written_by(hourly_table(settings), hour(1))
    assert len(upgrade.upgrade(settings)) == 1
    assert rows_of(settings) == held
    assert written_by(hourly_table(settings), hour(1)).run.window == hour(1)
    assert upgrade.upgrade(settings) == []


def test_look_ups_of_before_keep_what_is_read_and_the_table_its_frontier(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    log = open_log(settings, StreamMode.LOOKUP)
    look_up = {"snapshot": "7:9:", "wal_lsn": 5}
    changes = [
        {"order_id": 1, "commit_lsn": 10, "commit_date": NOON.date(), "look_up": look_up},
        {"order_id": 2, "commit_lsn": 20, "commit_date": NOON.date(), "look_up": None},
    ]
    log.append(pa.Table.from_pylist(changes, log.schema), 25, 70)
    table = DeltaTable(log.uri)
    table.alter.set_table_properties({APPEND_ONLY: "false"})
    write_as_before(table, "look_up")
    table.alter.set_table_properties({APPEND_ONLY: "true"})
    before = table.metadata()
    (what,) = upgrade.upgrade(settings)
    assert "look-up" in what
    after = DeltaTable(log.uri)
    assert reached_of(after) == Reached(25, 70)
    kept = after.metadata()
    assert (kept.id, kept.description) == (before.id, before.description)
    assert (kept.configuration, kept.partition_columns) == (
        before.configuration,
        before.partition_columns,
    )
    rows = after.to_pyarrow_table().sort_by("order_id").to_pylist()
    assert [row["look_up"] for row in rows] == [look_up, None]
    again = open_log(settings, StreamMode.LOOKUP)
    again.append(pa.Table.from_pylist([changes[0] | {"commit_lsn": 30}], again.schema), 30, 71)
    assert upgrade.upgrade(settings) == []
