"""What goes wrong is said on one line, with a non-zero exit, and the table stays as it was."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path

import psycopg
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lockstep.batch.preflight import check_readable, check_writable
from lockstep.errors import LakehouseError, WriterBusyError
from lockstep.jars.errors import JarsIncompleteError
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.errors import CatalogError
from lockstep.pipeline.plan import plan_of
from lockstep.pipeline.project import read_project
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.sources.hourly_runs import HOURLY_PARTITIONS_OF_BEFORE
from pizzeria.names import MANIFEST, ORDERS_ENRICHED_BATCH, Login
from pydantic import SecretStr
from pyspark.sql import SparkSession

from tests.hourly_table import rows_of, run_window
from tests.project import PROJECT_DIR

pytestmark = pytest.mark.services

HOUR = Window.parse("2024-02-28T12:00Z", "2024-02-28T13:00Z")
HOUR_ARGUMENTS = ("--start", HOUR.start.isoformat(), "--end", HOUR.end.isoformat())
JOB = PROJECT_DIR / "jobs" / "run_window.py"


def changed(settings: Settings, **values: object) -> Settings:
    return settings.model_copy(update=values)


def run_job(
    settings: Settings, *arguments: str, **changed_environment: str
) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"LOCKSTEP_LAKEHOUSE": settings.lakehouse_uri} | changed_environment
    return subprocess.run(
        [sys.executable, str(JOB), *arguments],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_an_end_before_its_start_ends_the_job_with_one_line(pizzeria: Settings) -> None:
    job = run_job(pizzeria, "--start", "2024-02-28T13:00Z", "--end", "2024-02-28T12:00Z")
    assert job.returncode == 2
    assert job.stderr.startswith("error: window end 2024-02-28T12:00:00+00:00 is not after")
    assert len(job.stderr.splitlines()) == 1
    assert not Path(pizzeria.table_uri(ORDERS_ENRICHED_BATCH)).exists()


def test_no_database_is_named_with_its_address(pizzeria: Settings) -> None:
    with pytest.raises(PostgresUnavailableError, match=r"127\.0\.0\.1:1\b.*lockstep"):
        require_ready(changed(pizzeria, postgres_port=1), ReadMode.VIEW)


def test_a_wrong_password_is_named_without_it(pizzeria: Settings) -> None:
    wrong = changed(pizzeria, batch_reader_password=SecretStr("not-the-secret"))
    with pytest.raises(PostgresUnavailableError, match="batch_reader") as refused:
        require_ready(wrong, ReadMode.VIEW)
    assert "not-the-secret" not in str(refused.value)


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("POSTGRES_PORT", "1", "does not answer"),
        ("BATCH_READER_PASSWORD", "not-the-secret", "refuses the password"),
        ("LAKEHOUSE", "/dev/null/lakehouse", "cannot be written"),
        ("JARS_DIR", "/nowhere", "run `make setup`"),
    ],
)
def test_a_job_that_cannot_start_ends_with_one_line_and_exit_code_2(
    pizzeria: Settings, setting: str, value: str, said: str
) -> None:
    job = run_job(pizzeria, *HOUR_ARGUMENTS, **{f"LOCKSTEP_{setting}": value})
    assert job.returncode == 2, job.stderr
    assert len(job.stderr.splitlines()) == 1
    assert job.stderr.startswith("error: ")
    assert said in job.stderr
    assert "not-the-secret" not in job.stderr
    assert not Path(pizzeria.table_uri(ORDERS_ENRICHED_BATCH)).exists()


def require_ready(settings: Settings, mode: ReadMode) -> None:
    pipeline = read_project(settings.project).pipeline(MANIFEST)
    check_writable(settings, pipeline)
    check_readable(settings, pipeline, plan_of(pipeline), mode)


@contextmanager
def table_missing(settings: Settings, table: str) -> Iterator[None]:
    with psycopg.connect(**settings.connection(Login.OWNER), autocommit=True) as owner:
        owner.execute(f"ALTER TABLE {table} RENAME TO gone")
        try:
            yield
        finally:
            owner.execute(f"ALTER TABLE gone RENAME TO {table}")


def test_a_missing_table_is_named(pizzeria: Settings) -> None:
    with (
        table_missing(pizzeria, "clients"),
        pytest.raises(CatalogError, match=r"has no table public\.clients, which"),
    ):
        require_ready(pizzeria, ReadMode.TABLES)


@pytest.mark.spark
def test_a_table_that_vanishes_leaves_the_hour_as_it_was(
    spark: SparkSession, pizzeria: Settings
) -> None:
    run_window(spark, pizzeria, HOUR, ReadMode.TABLES)
    before = rows_of(pizzeria)
    with table_missing(pizzeria, "clients"), pytest.raises(PostgresUnavailableError):
        run_window(spark, pizzeria, HOUR, ReadMode.TABLES)
    assert rows_of(pizzeria) == before


def test_a_lakehouse_that_is_no_folder_is_refused(pizzeria: Settings, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(LakehouseError, match="cannot be written"):
        require_ready(changed(pizzeria, lakehouse=str(tmp_path / "file" / "x")), ReadMode.VIEW)


def test_too_little_room_is_refused_with_numbers(pizzeria: Settings) -> None:
    with pytest.raises(LakehouseError, match=r"MiB are free at .*LOCKSTEP_MIN_FREE_BYTES"):
        require_ready(changed(pizzeria, min_free_bytes=2**60), ReadMode.VIEW)


def test_a_table_as_earlier_versions_laid_it_out_is_refused_with_the_remedy(
    pizzeria: Settings, tmp_path: Path
) -> None:
    settings = changed(pizzeria, lakehouse=str(tmp_path))
    rows = pa.table({"order_id": [1], "order_date": [date(2024, 2, 28)], "order_hour": [12]})
    partitions = list(HOURLY_PARTITIONS_OF_BEFORE)
    write_deltalake(settings.table_uri(ORDERS_ENRICHED_BATCH), rows, partition_by=partitions)
    with pytest.raises(LakehouseError, match="`lockstep upgrade`"):
        require_ready(settings, ReadMode.VIEW)


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[None]:
    """A small file system of memory at the folder; only root may do this."""
    mount = ["mount", "-t", "tmpfs", *options, "lockstep-test", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting a small file system needs root and the right to mount")
    try:
        yield
    finally:
        subprocess.run(["umount", str(folder)], check=True)  # noqa: S607


@pytest.mark.spark
def test_a_disk_that_fills_up_leaves_the_hour_as_it_was(
    spark: SparkSession, pizzeria: Settings, tmp_path: Path
) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    with mounted(folder, "-o", "size=1m"):
        small = changed(pizzeria, lakehouse=str(folder / "lakehouse"), min_free_bytes=0)
        run_window(spark, small, HOUR, ReadMode.VIEW)
        before = rows_of(small)
        filler = folder / "filler"
        with pytest.raises(OSError, match="No space left"):
            filler.write_bytes(bytes(2 * 1024**2))
        with pytest.raises(LakehouseError, match=r"is full|cannot be written"):
            run_window(spark, small, HOUR, ReadMode.VIEW)
        filler.unlink()
        assert rows_of(small) == before


def test_a_read_only_lakehouse_is_refused(pizzeria: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "read-only"
    folder.mkdir()
    with mounted(folder, "-o", "ro"), pytest.raises(LakehouseError, match="Read-only"):
        require_ready(changed(pizzeria, lakehouse=str(folder)), ReadMode.VIEW)


def test_missing_jars_are_named(pizzeria: Settings, tmp_path: Path) -> None:
    with pytest.raises(JarsIncompleteError, match="make setup"):
        require_ready(changed(pizzeria, jars_dir=tmp_path), ReadMode.VIEW)


def test_a_second_writer_is_refused_while_the_first_writes(pizzeria: Settings) -> None:
    with (
        sole_writer(pizzeria, ORDERS_ENRICHED_BATCH),
        pytest.raises(WriterBusyError, match=f"pid {os.getpid()}"),
        sole_writer(pizzeria, ORDERS_ENRICHED_BATCH),
    ):
        pass


def test_a_writers_lock_ends_with_it(pizzeria: Settings) -> None:
    for _ in range(2):
        with sole_writer(pizzeria, ORDERS_ENRICHED_BATCH):
            pass
