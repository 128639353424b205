"""What an operator gave up counts for the topic that had the record, and for no later one."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lockstep.cdc.transactions import OffsetRange
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.names import change_topic, quarantine_path
from lockstep.settings import Settings
from lockstep.sources import given_up
from lockstep.sources.delta import open_table
from lockstep.sources.given_up import (
    QUARANTINED_COLUMNS,
    GivenUpRecords,
    GivenUpTransaction,
    given_up_ranges,
    given_up_records,
)
from lockstep.streams.quarantine import Quarantine
from pizzeria.names import CHANGE_TOPIC, QUARANTINED_RECORDS


def lost(first: int, last: int) -> GivenUpRecords:
    """Between two offsets one record of which nothing is known."""
    return GivenUpRecords(OffsetRange(first, last), 1, None, None, False, None, None, (), 0, "{")


def test_another_topic_of_that_name_has_nothing_given_up(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_up, "topic_id", lambda *_: "first")
    assert given_up_ranges(home) == []
    Quarantine(home, "operator", CHANGE_TOPIC).give_up([lost(4, 4)])
    assert given_up_ranges(home) == [OffsetRange(4, 4)]
    monkeypatch.setattr(given_up, "topic_id", lambda *_: "second")
    assert given_up_ranges(home) == []


def test_stretches_that_overlap_or_touch_are_one(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_up, "topic_id", lambda *_: "first")
    Quarantine(home, "operator", CHANGE_TOPIC).give_up([lost(20, 30), lost(4, 9), lost(25, 26)])
    Quarantine(home, "operator", CHANGE_TOPIC).give_up([lost(10, 12), lost(40, 40)])
    expected = [OffsetRange(4, 12), OffsetRange(20, 30), OffsetRange(40, 40)]
    assert given_up_ranges(home) == expected


def test_what_is_given_up_is_read_as_it_was_noted(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_up, "topic_id", lambda *_: "first")
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    one = replace(
        lost(4, 9),
        table="orders",
        hour=noon,
        is_order_hour=True,
        committed_first=noon,
        committed_last=noon + timedelta(minutes=1),
        transactions=(GivenUpTransaction(7, 70, noon), GivenUpTransaction(8, None, None)),
        transaction_count=2,
    )
    Quarantine(home, "operator", CHANGE_TOPIC).give_up([one])
    assert given_up_records(home) == [one]


def test_a_record_that_an_earlier_version_gave_up_stays_given_up(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_up, "topic_id", lambda *_: "first")
    row = {
        "stream": "operator",
        "topic": given_up.topic_now(home, CHANGE_TOPIC),
        "partition": 0,
        "offset": 4,
        "decision": "given up",
        "reason": "no JSON",
        "value": "{",
        "decided_at": datetime(2026, 1, 1, tzinfo=UTC),
    }
    schema = arrow_schema(dict(list(QUARANTINED_COLUMNS.items())[: len(row)]))
    uri = home.table_uri(QUARANTINED_RECORDS)
    write_deltalake(uri, pa.Table.from_pylist([row], schema=schema))
    assert given_up_records(home) == [replace(lost(4, 4), reason="no JSON", transaction_count=0)]
    Quarantine(home, "operator", CHANGE_TOPIC).give_up([lost(6, 7)])
    assert given_up_ranges(home) == [OffsetRange(4, 4), OffsetRange(6, 7)]


def test_records_of_another_sources_topic_are_in_that_sources_table(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(given_up, "topic_id", lambda *_: "first")
    Quarantine(home, "operator", change_topic("plant")).give_up([lost(3, 3)])
    (row,) = open_table(home.table_uri(quarantine_path("plant"))).to_pyarrow_table().to_pylist()
    assert (row["topic"], row["offset"]) == ("lockstep.plant.changes first", 3)
    assert given_up_records(home) == []
