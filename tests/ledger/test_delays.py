"""How long rows waited, in a window of whatever column is the time."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RunCommit
from lockstep.ledger.delays import Delay, delays_of
from lockstep.model.modes import ReadMode, StreamMode
from lockstep.model.window import HOUR, Window
from lockstep.settings import Settings
from pizzeria.names import ORDERS_ENRICHED_BATCH, change_log_table

from tests.parity.parcels import parcels

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
WINDOW = Window(NOON, NOON + HOUR)
TIME = pa.timestamp("us", "UTC")
SECOND = timedelta(seconds=1)


def test_the_rows_of_a_window_are_found_by_the_plans_time(tmp_path: Path) -> None:
    plan, settings = parcels(tmp_path / "project"), Settings(home=tmp_path)
    cut = Cut("a run", "700:705:701", 5000, WINDOW.end)
    run = RunCommit(WINDOW, ReadMode.VIEW, 1, cut)
    packed, committed = pa.array([NOON, NOON - SECOND], TIME), [NOON + SECOND] * 2
    origin = pa.array(
        [{"committed_at": at} for at in committed], pa.struct([("committed_at", TIME)])
    )
    write_deltalake(
        settings.table_uri(ORDERS_ENRICHED_BATCH),
        pa.table({"packed": packed, "origin": origin, "run_id": ["a run"] * 2}),
        commit_properties=CommitProperties(custom_metadata={"userMetadata": run.as_json()}),
    )
    log = {
        "packed": packed,
        "committed_at": pa.array(committed, TIME),
        "written_at": pa.array([NOON + 3 * SECOND] * 2, TIME),
        "op": ["c", "c"],
        "tx_id": pa.array([701, 702], pa.int64()),
    }
    write_deltalake(settings.table_uri(change_log_table(StreamMode.TEMPORAL)), pa.table(log))
    found = delays_of(settings, plan, WINDOW)
    assert found.batch == [Delay(NOON + SECOND, 3599.0)]
    assert found.streams == {StreamMode.TEMPORAL: [Delay(NOON + SECOND, 2.0)]}
