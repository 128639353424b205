"""The history of a source over random transactions, its writer killed within and between them."""

from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from lockstep.cdc import transactions
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog
from lockstep.streams.follower import Follower
from lockstep.streams.given_up import GivenUp
from lockstep.streams.source_history import SourceHistorySink, history_log
from lockstep.streams.table_rows import rows_decoder

from tests.plant.planned import NAMES, SENSOR, SITE, planned
from tests.plant.random_changes import RandomChanges
from tests.plant.test_temporal import FACT_WITH_NOTE, QUERY, history_rows, read_columns, serve

pytestmark = pytest.mark.slow

SEEDS = (0, 1, 2)


class KilledError(Exception):
    """Ends the writer before its commit."""


@pytest.mark.parametrize("held", [50_000, 3], ids=["in memory", "large"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_history_has_each_version_whatever_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, held: int
) -> None:
    print(f"seed {seed}")  # noqa: T201 - shown when a test fails
    monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", held)
    monkeypatch.setattr("lockstep.streams.writer.QUIET_COMMIT_SECONDS", 0)
    rng = Random(seed)
    changes = RandomChanges(NAMES, rng)
    changes.add(30)
    serve(monkeypatch, changes)
    tables = planned(tmp_path, FACT_WITH_NOTE, SENSOR, SITE, query=QUERY).tables
    settings, uri = Settings(home=tmp_path / "home"), str(tmp_path / "history")
    decoder = rows_decoder("topic", tables, keeps_texts=True)
    append = AppendLog.append

    def append_or_die(self: AppendLog, rows: pa.Table, frontier: int, offset: int) -> None:
        if rng.random() < 0.5:
            raise KilledError
        append(self, rows, frontier, offset)

    monkeypatch.setattr(AppendLog, "append", append_or_die)
    kills = 0
    while True:
        sink = SourceHistorySink(history_log(uri, tables, 1, 7), tables)
        runner = Follower(settings, "h", sink, xid_near=1000, given_up=GivenUp(tuple, decoder))
        try:
            while (first := runner.tracker.next_offset) < len(changes.records):
                last = first + rng.randint(1, 40)
                runner.follow(list(enumerate(changes.records))[first:last])
            break
        except KilledError:
            kills += 1
    assert kills
    assert history_rows(uri) == read_columns(changes.history())
