"""Of every table dead files go; rows, kept versions and the work of its owner stay."""

import os
import shutil
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.cdc.transactions import OffsetRange
from lockstep.maintain import tables
from lockstep.maintain.outcome import Outcome, State
from lockstep.maintain.tables import maintain_tables
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.pipeline.names import sql_name
from lockstep.publish.step import step
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources import given_up
from lockstep.sources.given_up import GivenUpRecords
from lockstep.sources.hourly_runs import windows_since, written_by
from lockstep.streams.quarantine import Quarantine
from lockstep.supervise import lease
from lockstep.supervise.desired import DesiredState, write_desired
from pizzeria.names import (
    CHANGE_TOPIC,
    LAKEHOUSE_TABLES,
    ORDER_TIME,
    ORDERS_ENRICHED_BATCH,
    PARITY_LEDGER,
    QUARANTINED_RECORDS,
    SOURCE_HISTORY,
    change_log_table,
)

from tests.maintain.aging import age
from tests.project import PROJECT_DIR
from tests.publish.shop import PLAN, Shop, hour

OUTBOX = change_log_table(StreamMode.OUTBOX)
OF_STREAMS = {SOURCE_HISTORY, *map(change_log_table, StreamMode)}
OF_WRITERS = sorted(set(LAKEHOUSE_TABLES) - OF_STREAMS)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path / "home", lakehouse=str(tmp_path / "lakehouse"))


@pytest.fixture(autouse=True)
def no_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "PATIENCE_SECONDS", 0.0)


def folder_of(settings: Settings, table: str) -> Path:
    return Path(settings.table_uri(table))


def write(settings: Settings, table: str, number: int, mode: str = "overwrite") -> None:
    write_deltalake(folder_of(settings, table), pa.table({"number": [number]}), mode=mode)


def numbers(settings: Settings, table: str, version: int | None = None) -> list[int]:
    found = DeltaTable(folder_of(settings, table), version=version).to_pyarrow_table()
    return sorted(found["number"].to_pylist())


def files(settings: Settings, table: str) -> list[str]:
    return sorted(path.name for path in folder_of(settings, table).glob("*.parquet"))


def with_a_dead_file(settings: Settings, table: str) -> str:
    """Three versions of a row; the first one's file, which is given, left the table long ago."""
    write(settings, table, 0)
    (dead,) = files(settings, table)
    write(settings, table, 1)
    age(folder_of(settings, table), days=10)
    write(settings, table, 2)
    return dead


def maintained(settings: Settings, *, is_dry_run: bool = False) -> dict[str, Outcome]:
    found = list(maintain_tables(settings, is_dry_run=is_dry_run))
    assert len({one.what for one in found}) == len(found)
    return {one.what: one for one in found}


@pytest.mark.parametrize("table", LAKEHOUSE_TABLES)
def test_dead_files_go_and_a_kept_version_stays_readable(settings: Settings, table: str) -> None:
    dead = with_a_dead_file(settings, table)
    size = (folder_of(settings, table) / dead).stat().st_size
    (outcome,) = maintained(settings).values()
    assert (outcome.what, outcome.freed_bytes) == (sql_name(table), size)
    assert outcome.state is (State.KEPT if table in OF_STREAMS else State.DONE)
    assert dead not in files(settings, table)
    assert numbers(settings, table) == [2]
    assert numbers(settings, table, version=1) == [1]
    assert maintained(settings)[sql_name(table)].freed_bytes == 0


def test_a_dead_file_goes_that_the_tables_own_log_has_forgotten(settings: Settings) -> None:
    """A checkpoint leaves out what was removed longer ago than versions are kept."""
    dead = with_a_dead_file(settings, ORDERS_ENRICHED_BATCH)
    DeltaTable(folder_of(settings, ORDERS_ENRICHED_BATCH)).create_checkpoint()
    maintained(settings)
    assert dead not in files(settings, ORDERS_ENRICHED_BATCH)
    assert numbers(settings, ORDERS_ENRICHED_BATCH, version=1) == [1]


def test_files_that_a_killed_run_left_go_when_they_are_old(settings: Settings) -> None:
    write(settings, ORDERS_ENRICHED_BATCH, 0)
    folder = folder_of(settings, ORDERS_ENRICHED_BATCH)
    old = folder / "window_date=2026-01-01" / "part-1.parquet"
    young = old.with_name("part-2.parquet")
    for path in (old, young):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 100)
    age(old.parent, days=8)
    os.utime(young)
    assert maintained(settings)[sql_name(ORDERS_ENRICHED_BATCH)].freed_bytes == 100
    assert (old.exists(), young.exists()) == (False, True)
    assert numbers(settings, ORDERS_ENRICHED_BATCH) == [0]


@pytest.mark.parametrize("table", OF_WRITERS)
def test_small_files_are_joined_but_for_an_hourly_runs(settings: Settings, table: str) -> None:
    for number in range(5):
        write(settings, table, number, mode="append")
    maintained(settings)
    expected = 5 if table == ORDERS_ENRICHED_BATCH else 1
    assert len(DeltaTable(folder_of(settings, table)).file_uris()) == expected
    assert numbers(settings, table) == list(range(5))


def test_what_the_quarantine_holds_is_joined_and_stays(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_up, "topic_id", lambda *_: "first")
    quarantine = Quarantine(settings, "operator", CHANGE_TOPIC)
    for offset in range(5):
        place = OffsetRange(offset, offset)
        lost = GivenUpRecords(place, 1, None, None, False, None, None, (), 0, "{")
        quarantine.give_up([lost])
    maintained(settings)
    table = DeltaTable(settings.table_uri(QUARANTINED_RECORDS))
    assert len(table.file_uris()) == 1
    assert sorted(table.to_pyarrow_table()["offset"].to_pylist()) == list(range(5))


def test_a_table_that_another_process_writes_is_skipped_and_its_writer_named(
    settings: Settings,
) -> None:
    dead = with_a_dead_file(settings, PARITY_LEDGER)
    other = with_a_dead_file(settings, ORDERS_ENRICHED_BATCH)
    with sole_writer(settings, PARITY_LEDGER):
        outcome = maintained(settings)[sql_name(PARITY_LEDGER)]
    assert (outcome.state, outcome.freed_bytes) == (State.SKIPPED, 0)
    assert f"pid {os.getpid()}" in outcome.note
    assert dead in files(settings, PARITY_LEDGER)
    assert other not in files(settings, ORDERS_ENRICHED_BATCH)
    assert maintained(settings)[sql_name(PARITY_LEDGER)].state is State.DONE
    assert dead not in files(settings, PARITY_LEDGER)


@pytest.mark.parametrize(
    ("table", "mode"),
    [(OUTBOX, StreamMode.OUTBOX), (SOURCE_HISTORY, HISTORY)],
)
def test_the_table_of_a_stream_that_runs_is_left_to_it(
    settings: Settings, table: str, mode: str
) -> None:
    dead = with_a_dead_file(settings, table)
    running: AbstractContextManager = lease.acquire(settings, mode)
    with running:
        outcome = maintained(settings)[sql_name(table)]
    assert (outcome.state, outcome.freed_bytes) == (State.OWNER, 0)
    assert f"{mode} (pid {os.getpid()})" in outcome.note
    assert "1 dead files" in outcome.note
    assert dead in files(settings, table)


def test_a_stream_that_is_to_run_is_not_kept_from_its_start(settings: Settings) -> None:
    dead = with_a_dead_file(settings, OUTBOX)
    write_desired(settings, StreamMode.OUTBOX, DesiredState.RUNNING, "a test")
    assert maintained(settings)[sql_name(OUTBOX)].state is State.OWNER
    assert dead in files(settings, OUTBOX)
    write_desired(settings, StreamMode.OUTBOX, DesiredState.STOPPED, "a test")
    assert maintained(settings)[sql_name(OUTBOX)].state is State.KEPT
    assert dead not in files(settings, OUTBOX)


def test_the_growth_of_a_change_log_is_reported(settings: Settings) -> None:
    for number in range(4):
        write(settings, OUTBOX, number, mode="append")
    (file, *_) = folder_of(settings, OUTBOX).glob("*.parquet")
    note = maintained(settings)[sql_name(OUTBOX)].note
    assert note.startswith("4 rows, ")
    assert f"{file.stat().st_size:.0f}.0 MB a million" in note


def test_a_full_disk_does_not_keep_dead_files_from_going(settings: Settings) -> None:
    dead = with_a_dead_file(settings, PARITY_LEDGER)
    full = settings.model_copy(update={"min_free_bytes": 10**18})
    assert maintained(full)[sql_name(PARITY_LEDGER)].state is State.DONE
    assert dead not in files(settings, PARITY_LEDGER)


def test_a_table_that_cannot_be_read_fails_alone(settings: Settings) -> None:
    with_a_dead_file(settings, PARITY_LEDGER)
    dead = with_a_dead_file(settings, ORDERS_ENRICHED_BATCH)
    (folder_of(settings, PARITY_LEDGER) / "_delta_log" / f"{0:020}.json").write_text("{")
    outcome = maintained(settings)[sql_name(PARITY_LEDGER)]
    assert outcome.state is State.FAILED
    assert settings.table_uri(PARITY_LEDGER) in outcome.note
    assert dead not in files(settings, ORDERS_ENRICHED_BATCH)


def test_tables_on_an_object_store_are_skipped_for_want_of_a_lock(settings: Settings) -> None:
    away = settings.model_copy(update={"lakehouse": "s3a://bucket/lakehouse"})
    (outcome,) = maintained(away).values()
    assert (outcome.state, outcome.where) == (State.SKIPPED, "s3a://bucket/lakehouse")
    assert "lock" in outcome.note


def test_a_vacuum_of_the_hourly_table_keeps_what_is_known_of_its_windows(
    settings: Settings,
) -> None:
    """Runs of 20 days ago, of which one was run again, and what the published table has of them."""
    shop = Shop(settings)
    shop.order(0)
    shop.order(1)
    shop.run(hour(0))
    shop.run(hour(1))
    changed = shop.order(0)
    shop.run(hour(0))
    step(settings, PLAN)
    folder = folder_of(settings, ORDERS_ENRICHED_BATCH)
    age(folder, days=20)
    before = DeltaTable(folder)
    recorded = {number: written_by(before, hour(number)) for number in (0, 1)}
    rows = before.to_pyarrow_table().sort_by("order_id")

    outcome = maintained(settings)[sql_name(ORDERS_ENRICHED_BATCH)]
    assert outcome.note.startswith("1 dead files")

    after = DeltaTable(folder)
    assert after.version() > before.version()
    assert {number: written_by(after, hour(number)) for number in (0, 1)} == recorded
    assert windows_since(after, before.version(), ORDER_TIME) == []
    assert after.to_pyarrow_table().sort_by("order_id") == rows
    assert changed in rows["order_id"].to_pylist()
    assert step(settings, PLAN).is_all
    late = shop.order(2)
    shop.run(hour(2))
    assert windows_since(DeltaTable(folder), after.version(), ORDER_TIME) == [hour(2)]
    assert step(settings, PLAN).has_published
    published = DeltaTable(settings.table_uri("orders_enriched/orders_enriched")).to_pyarrow_table()
    assert late in published["order_id"].to_pylist()


def test_commits_of_the_hourly_table_older_than_a_vacuum_stay_known(settings: Settings) -> None:
    shop = Shop(settings)
    shop.order(0)
    shop.run(hour(0))
    folder = folder_of(settings, ORDERS_ENRICHED_BATCH)
    run = written_by(DeltaTable(folder), hour(0)).run
    for _ in range(3):
        shop.run(hour(1))
        age(folder, days=9)
        maintained(settings)
    assert written_by(DeltaTable(folder), hour(0)).run == run
    assert run.cut.taken_at < datetime.now(UTC)


def test_the_tables_of_every_pipeline_are_maintained_each_once(
    settings: Settings, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    for folder in ("include/sql/orders_enriched", "include/sources/pizzeria"):
        shutil.copytree(PROJECT_DIR / folder, project / folder)
    pipelines = project / "include" / "sql"
    shutil.copytree(pipelines / "orders_enriched", pipelines / "orders_again")
    torn = pipelines / "torn" / "pipeline.toml"
    torn.parent.mkdir()
    torn.write_text("sources = ")
    both = settings.model_copy(update={"project": project, "pipeline": "orders_enriched"})
    others = "orders_again/orders_again__batch"
    for table in (ORDERS_ENRICHED_BATCH, SOURCE_HISTORY):
        write(both, table, 1)
    dead = with_a_dead_file(both, others)
    found = [outcome.what for outcome in maintain_tables(both, is_dry_run=False)]
    assert sorted(found) == ["orders_again__batch", "orders_enriched__batch", "pizzeria__history"]
    assert dead not in files(both, others)
