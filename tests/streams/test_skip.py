"""Only a record that nobody can read is given up, and once; any other is refused."""

from collections.abc import Iterator

import pytest
from deltalake import DeltaTable
from lockstep.contracts import QUARANTINED_RECORDS
from lockstep.errors import StreamError
from lockstep.settings import Settings
from lockstep.sources.delta import open_table
from lockstep.streams import quarantine, skip
from lockstep.streams.quarantine import Quarantine, given_up_offsets
from lockstep.streams.skip import skip_record

TOPIC = {0: b'{"status":"BEGIN","id":"7:70"}', 1: None, 2: b"{broken", 4: b'{"op":"c"}'}
READABLE, TOMBSTONE, BROKEN, NO_RECORD, WITHOUT_SOURCE, END = range(6)


@pytest.fixture(autouse=True)
def topic(monkeypatch: pytest.MonkeyPatch) -> None:
    """A change topic with these records, in slices as they come from Kafka."""

    def read_again(_: Settings, first: int, end: int) -> Iterator[list]:
        yield []
        yield [(offset, TOPIC[offset]) for offset in range(first, end) if offset in TOPIC]

    monkeypatch.setattr(skip, "end_offset", lambda _: END)
    monkeypatch.setattr(skip, "read_again", read_again)
    monkeypatch.setattr(quarantine, "topic_id", lambda _: "first")


@pytest.mark.parametrize(
    ("offset", "reason"),
    [(BROKEN, "malformed"), (WITHOUT_SOURCE, "a change without `source`")],
)
def test_a_record_that_cannot_be_read_is_given_up_with_its_reason(
    home: Settings, offset: int, reason: str
) -> None:
    assert reason in skip_record(home, offset)
    assert given_up_offsets(home) == {offset}
    (row,) = open_table(home.table_uri(QUARANTINED_RECORDS)).to_pyarrow_table().to_pylist()
    assert (row["stream"], row["value"]) == ("operator", TOPIC[offset].decode())
    assert reason in row["reason"]


@pytest.mark.parametrize(
    ("offset", "why"),
    [
        (READABLE, "can be read"),
        (TOMBSTONE, "can be read"),
        (NO_RECORD, "holds no record"),
        (END, f"ends before {END}"),
        (-1, "has no offset -1"),
    ],
)
def test_any_other_offset_is_refused_and_nothing_is_written(
    home: Settings, offset: int, why: str
) -> None:
    with pytest.raises(StreamError, match=why):
        skip_record(home, offset)
    assert not DeltaTable.is_deltatable(home.table_uri(QUARANTINED_RECORDS))


def test_a_record_is_given_up_once(home: Settings) -> None:
    skip_record(home, BROKEN)
    with pytest.raises(StreamError, match="given up already"):
        skip_record(home, BROKEN)
    assert open_table(home.table_uri(QUARANTINED_RECORDS)).count() == 1


def test_a_record_that_a_stream_put_aside_is_not_given_up_by_that(home: Settings) -> None:
    by_outbox = Quarantine(home, "outbox")
    by_outbox.put(BROKEN, "unknown table", TOPIC[BROKEN])
    by_outbox.write()
    skip_record(home, BROKEN)
    assert given_up_offsets(home) == {BROKEN}
