"""The files of an hourly table: what a window's replacement writes, and what it leaves alone."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable
from lockstep.errors import LakehouseError
from lockstep.model.window import HOUR, Window
from lockstep.pipeline.result_tables import HOURLY_PARTITION
from lockstep.sinks import hourly_table
from lockstep.sinks.hourly_table import can_collect, open_table, replace_collected, replace_window
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

DAY = datetime(2024, 2, 28, tzinfo=UTC)
ROWS_OF_AN_HOUR = 4


class Table:
    """An hourly table of rows with a number, a quarter of an hour apart."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.uri = str(folder / "table")

    def replace(
        self, window: Window, name: str = "first", *, rows_of: Window | None = None
    ) -> None:
        times = self.times(rows_of or window)
        values = [(time, time.date(), name) for time in times]
        rows = self.spark.createDataFrame(
            values, "measured_at timestamp, window_date date, name string"
        )
        where, columns = ("measured_at", window), dict(rows.dtypes)
        table = open_table(self.spark, self.uri, columns, HOURLY_PARTITION)
        if table is not None and can_collect(table, columns, *where, len(values)):
            replace_collected(table, rows.toArrow(), *where, "{}")
        else:
            replace_window(rows, self.uri, *where, "{}")

    def times(self, window: Window) -> list[datetime]:
        step = HOUR / ROWS_OF_AN_HOUR
        return [window.start + n * step for n in range(int((window.end - window.start) / step))]

    def files(self, of: str = "") -> set[str]:
        return {uri for uri in DeltaTable(self.uri).file_uris() if of in uri}

    def names(self) -> dict[datetime, str]:
        rows = DeltaTable(self.uri).to_pyarrow_table().to_pylist()
        names = {row["measured_at"]: row["name"] for row in rows}
        assert len(names) == len(rows), "a row is there twice"
        return names


@pytest.fixture
def table(spark: SparkSession, tmp_path: Path) -> Table:
    return Table(spark, tmp_path)


def hour(number: int) -> Window:
    return Window(DAY + number * HOUR, DAY + (number + 1) * HOUR)


def days(count: int) -> Window:
    return Window(DAY, DAY + timedelta(days=count))


def test_an_hour_again_leaves_the_files_of_the_days_other_hours(table: Table) -> None:
    table.replace(hour(10))
    others = table.files()
    table.replace(hour(11))
    table.replace(hour(11), "second")
    assert others < table.files()
    names = table.names()
    assert {names[time] for time in table.times(hour(11))} == {"second"}
    assert {names[time] for time in table.times(hour(10))} == {"first"}


def test_a_window_of_days_is_one_file_for_each_day(table: Table) -> None:
    table.replace(days(3))
    assert len(table.files()) == 3
    assert len(table.names()) == 3 * 24 * ROWS_OF_AN_HOUR


def test_a_large_day_is_in_files_of_times_that_do_not_overlap(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hourly_table, "BULK_FILE_ROWS_MAX", 3 * ROWS_OF_AN_HOUR)
    table.replace(days(2))
    assert len(table.files()) == 2 * 24 / 3
    before = table.files()
    table.replace(hour(7), "second")
    assert len(before - table.files()) == 1


def test_an_hour_of_a_day_that_was_written_whole_keeps_the_days_other_rows(table: Table) -> None:
    table.replace(days(2))
    next_day = table.files("2024-02-29")
    table.replace(hour(7), "second")
    expected = dict.fromkeys(table.times(days(2)), "first")
    expected |= dict.fromkeys(table.times(hour(7)), "second")
    assert table.names() == expected
    assert table.files("2024-02-29") == next_day


def test_whole_days_replace_all_that_hours_wrote(table: Table) -> None:
    for number in (3, 4, 30):
        table.replace(hour(number))
    table.replace(days(1), "second")
    expected = dict.fromkeys(table.times(days(1)), "second")
    assert table.names() == expected | dict.fromkeys(table.times(hour(30)), "first")


@pytest.mark.parametrize(
    ("window", "collected_max", "refusal"),
    [
        (hour(5), hourly_table.COLLECTED_ROWS_MAX, LakehouseError),
        (hour(5), 0, PySparkException),
        (days(2), hourly_table.COLLECTED_ROWS_MAX, PySparkException),
    ],
)
def test_a_row_outside_of_the_window_is_refused_and_nothing_is_written(
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    window: Window,
    collected_max: int,
    refusal: type[Exception],
) -> None:
    monkeypatch.setattr(hourly_table, "COLLECTED_ROWS_MAX", collected_max)
    table.replace(hour(5))
    before = table.names()
    later = Window(window.end, window.end + HOUR)
    with pytest.raises(refusal):
        table.replace(window, rows_of=later)
    assert table.names() == before


def test_the_log_of_a_table_of_hours_stays_short(table: Table) -> None:
    for number in range(13):
        table.replace(hour(number))
    last = json.loads((Path(table.uri) / "_delta_log" / "_last_checkpoint").read_text())
    assert last["version"] == 10
    assert len(table.names()) == 13 * ROWS_OF_AN_HOUR
