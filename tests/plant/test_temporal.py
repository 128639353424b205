"""Mode temporal over random histories: each fact's version is the query as of its own commit.

The records are Debezium's, the tables Delta's, the query Spark's; Kafka is a list of records, so
that restarts and slices can be placed anywhere. tests/plant/test_stream.py has the real one.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable
from lockstep.cdc import transactions
from lockstep.pipeline.catalog import Column
from lockstep.pipeline.modes import Mode
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep.streams import as_of_commit, large, needed_versions
from lockstep.streams.follower import Follower
from lockstep.streams.given_up import GivenUp
from lockstep.streams.sink import open_change_log
from lockstep.streams.source_history import SourceHistorySink, history_log
from lockstep.streams.stored_history import StoredHistory
from lockstep.streams.table_rows import rows_decoder
from pyspark.sql import SparkSession

from tests.plant.random_changes import RandomChanges
from tests.plant.test_plan import FACT, NAMES, SENSOR, SITE, planned

pytestmark = pytest.mark.spark
QUERY = """
SELECT r.$id AS $reading_id, r.$taken_at AS $measured_at, s.$name AS $sensor_name, w.$city,
    CAST(r.$value * s.$factor AS decimal(18, 6)) AS $amount, r.note AS note
FROM $schema.$fact AS r
LEFT JOIN $schema.$sensor AS s ON r.$sensor_id = s.$id
LEFT JOIN $site AS w ON s.$site_code = w.$code
"""


FACT_WITH_NOTE = replace(FACT, columns=(*FACT.columns, Column("note", "text")))
"""Its note is large: an update may leave it out."""


class Streams:
    """The history and the stream of one pipeline, which tests feed and restart."""

    def __init__(self, spark: SparkSession, folder: Path, changes: RandomChanges) -> None:
        plan = planned(folder, FACT_WITH_NOTE, SENSOR, SITE, query=QUERY)
        self.plan = NAMES.locked(plan, note="string")
        self.settings = Settings(home=folder / "home", lakehouse=str(folder / "lakehouse"))
        self._spark, self._records = spark, changes.records
        self.start_history()
        self.start_stream()

    @property
    def history_uri(self) -> str:
        return self.settings.table_uri(self.plan.history)

    @property
    def log_uri(self) -> str:
        return self.settings.table_uri(self.plan.change_log(Mode.TEMPORAL))

    def start_history(self) -> None:
        sink = SourceHistorySink(
            history_log(self.history_uri, self.plan.tables, 1, 7), self.plan.tables
        )
        decoder = rows_decoder(self.plan.change_topic, self.plan.tables, keeps_texts=True)
        self.history = self._runner("history", sink, GivenUp(tuple, decoder))

    def start_stream(self) -> None:
        log = open_change_log(self.settings, self.plan, Mode.TEMPORAL, 7)
        stored = StoredHistory(self.history_uri)
        needed = needed_versions.NeededVersions(self.plan, stored, log.reached.frontier)
        query = as_of_commit.Evaluation(self._spark, self.plan)
        sink = as_of_commit.TemporalSink(log, self.plan, needed, query)
        given_up = GivenUp(tuple, rows_decoder(self.plan.change_topic, self.plan.tables))
        as_of_commit.catch_up(self.settings, needed, sink.wanted, given_up)
        self.stream = self._runner("stream", sink, given_up)

    def _runner(self, name: str, sink: object, given_up: GivenUp) -> Follower:
        return Follower(self.settings, name, sink, xid_near=1000, given_up=given_up)

    def feed(self, runner: Follower, end: int) -> None:
        """All records from where the runner's table ends, up to an offset."""
        first = min(runner.tracker.next_offset, end)
        runner.follow(list(enumerate(self._records))[first:end])

    def versions(self) -> list[tuple]:
        """Key, LSN, op and row of each row of the change log."""
        rows = DeltaTable(self.log_uri).to_pyarrow_table().to_pylist()
        names = (NAMES.sensor_name, NAMES.city, NAMES.amount, "note")
        return [
            (
                one[NAMES.reading_id],
                one["commit_lsn"],
                one["op"],
                None if one["op"] == "d" else tuple(one[name] for name in names),
            )
            for one in rows
        ]


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A quiet frontier is committed at once; who waits for the history fails soon."""
    monkeypatch.setattr("lockstep.streams.writer.QUIET_COMMIT_SECONDS", 0)
    monkeypatch.setattr(needed_versions, "STORED_SECONDS_MAX", 5)


def history_rows(uri: str) -> dict[tuple[str, str, int], tuple[str, dict | None]]:
    """Op and row of the history's versions, by table, key text and LSN; twice is the same."""
    found: dict[tuple[str, str, int], tuple[str, dict | None]] = {}
    for one in DeltaTable(uri).to_pyarrow_table().to_pylist():
        version = one["op"], one["row"] and json.loads(one["row"])
        place = one["table"], one["row_key"], one["commit_lsn"]
        assert found.setdefault(place, version) == version
    return found


def read_columns(
    versions: dict[tuple[str, str, int], tuple[str, dict | None]],
) -> dict[tuple[str, str, int], tuple[str, dict | None]]:
    """The same without the one column that no query reads."""
    return {
        place: (op, row and {name: row[name] for name in row if name != NAMES.serial})
        for place, (op, row) in versions.items()
    }


def serve(monkeypatch: pytest.MonkeyPatch, changes: RandomChanges) -> None:
    """Make the records the topic's."""

    def read_again(_: Settings, first: int, end: int, _topic: str = "") -> Iterator[list]:
        found = list(enumerate(changes.records))[first:end]
        yield from (found[at : at + 7] for at in range(0, len(found), 7))

    for module in (change_topic, large):
        monkeypatch.setattr(module, "read_again", read_again)
    monkeypatch.setattr(change_topic, "end_offset", lambda *_: len(changes.records))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("held", [50_000, 3], ids=["in memory", "large"])
@pytest.mark.parametrize("kept", [200_000, 1], ids=["kept", "read from the history"])
def test_every_version_is_the_query_as_of_its_commit(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int, kept: int
) -> None:
    """held: changes of a transaction in memory; kept: rows of a table in memory."""
    seed = 1
    print(f"seed {seed}")  # noqa: T201 - shown when a test fails
    rng = Random(seed)
    monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", held)
    monkeypatch.setattr(needed_versions, "KEPT_ROWS_MAX", kept)
    changes = RandomChanges(NAMES, rng)
    serve(monkeypatch, changes)
    changes.add(25)
    streams = Streams(spark, tmp_path, changes)
    end = 0
    while end < len(changes.records):
        end = min(end + rng.randint(1, 60), len(changes.records))
        streams.feed(streams.history, min(end + rng.choice([0, 0, 25]), len(changes.records)))
        streams.feed(streams.stream, end)
        if rng.random() < 0.3:
            streams.start_history()
        if rng.random() < 0.3:
            streams.start_stream()
    found = streams.versions()
    assert sorted(found, key=str) == sorted(changes.expected(), key=str)
    assert len(found) > 40
    streams.feed(streams.history, end)
    assert history_rows(streams.history_uri) == read_columns(changes.history())


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("held", [50_000, 3], ids=["in memory", "large"])
def test_a_stream_takes_from_the_topic_what_the_history_does_not_have_yet(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, held: int
) -> None:
    seed = 2
    print(f"seed {seed}")  # noqa: T201 - shown when a test fails
    rng = Random(seed)
    monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", held)
    changes = RandomChanges(NAMES, rng, leaves_out=False)
    serve(monkeypatch, changes)
    changes.add(25)
    streams = Streams(spark, tmp_path, changes)
    for part in (0.2, 0.5, 0.8, 1):
        end = round(len(changes.records) * part)
        streams.feed(streams.history, round(end * 0.4))
        streams.feed(streams.stream, end)
        streams.start_stream()
    assert sorted(streams.versions(), key=str) == sorted(changes.expected(), key=str)
