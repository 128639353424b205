"""What an operator gave up counts for the topic that had the record, and for no later one."""

from concurrent.futures import ThreadPoolExecutor

import pytest
from lockstep.contracts import QUARANTINED_RECORDS, StreamMode
from lockstep.settings import Settings
from lockstep.sources.delta import open_table
from lockstep.streams import quarantine
from lockstep.streams.quarantine import Quarantine, given_up_offsets


def test_another_topic_of_that_name_has_nothing_given_up(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quarantine, "topic_id", lambda _: "first")
    assert given_up_offsets(home) == frozenset()
    by_outbox = Quarantine(home, "outbox")
    by_outbox.put(3, "unknown table", b"{}")
    by_outbox.write()
    Quarantine(home, "operator").give_up(4, "no JSON", b"{")
    assert given_up_offsets(home) == {4}
    monkeypatch.setattr(quarantine, "topic_id", lambda _: "second")
    assert given_up_offsets(home) == frozenset()


def test_streams_of_one_driver_put_the_same_records_aside_at_once(home: Settings) -> None:
    def put_aside(mode: str) -> None:
        one = Quarantine(home, mode)
        for offset in range(5):
            one.put(offset, "unknown table", b"{}")
        one.write()
        one.write()

    with ThreadPoolExecutor(len(StreamMode)) as pool:
        list(pool.map(put_aside, StreamMode))
    table = open_table(home.table_uri(QUARANTINED_RECORDS))
    rows = table.to_pyarrow_table().to_pylist()
    assert sorted((row["stream"], row["offset"]) for row in rows) == sorted(
        (str(mode), offset) for mode in StreamMode for offset in range(5)
    )
    assert table.version() < len(StreamMode)
