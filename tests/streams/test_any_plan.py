"""Modes that join nothing write the rows of any plan: a key of two columns, none an integer."""

import base64
import json
from datetime import UTC, datetime
from decimal import Decimal

import pytest
from lockstep.cdc import transactions
from lockstep.cdc.records import MESSAGES, RecordDecoder
from lockstep.model.modes import StreamMode
from lockstep.pipeline.modes import Mode
from lockstep.settings import Settings
from lockstep.sources.delta import open_table
from lockstep.streams import large, published
from lockstep.streams.fact_records import facts_decoder
from lockstep.streams.fact_time import FactTime
from lockstep.streams.follower import Follower
from lockstep.streams.given_up import GivenUp
from lockstep.streams.sink import ChangeLogSink, open_change_log

from tests.streams.parcels import parcels

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
FACT = "scales.weighings"
NORTH, SOUTH = ("north", Decimal("1.0")), ("south", Decimal("1.0"))
SNAPSHOT = [{"type": "STARTED"}, {"type": "COMPLETED"}]

OUTBOX, MESSAGE_PREFIX = "scales.outbox", parcels().message_prefix


def weighed(op: str, depot: str, *grams: int) -> dict:
    """What the application says of a parcel."""
    key = {"op": op, "the Depot": depot, "parcel_no": 1}
    return key if op == "d" else {**key, "weighed_at": NOON.isoformat(), "grams": grams}


def event(tx: int, number: int, table: str, op: str, **fields: object) -> dict:
    schema, _, name = table.rpartition(".")
    source = {"schema": schema or "public", "table": name, "ts_us": tx * 1000, "txId": tx}
    return {"op": op, "source": source, "transaction": {"total_order": number}, **fields}


def as_record(tx: int, number: int, content: dict | None, mode: StreamMode) -> dict:
    """None is a TRUNCATE of the fact."""
    if content is None:
        return event(tx, number, FACT, "t")
    text = json.dumps(content)
    if mode is StreamMode.OUTBOX:
        return event(tx, number, OUTBOX, "c", after={"payload": text})
    message = {
        "prefix": MESSAGE_PREFIX,
        "content": base64.b64encode(text.encode()).decode(),
    }
    return event(tx, number, "", "m", message=message)


def topic_of(mode: StreamMode, *contents: list[dict | None]) -> list[bytes]:
    records = list(SNAPSHOT)
    for tx, said in enumerate(contents, start=1):
        made = [as_record(tx, number, one, mode) for number, one in enumerate(said, start=1)]
        tables = [one["source"]["schema"] + "." + one["source"]["table"] for one in made]
        counts = [
            {"data_collection": table, "event_count": tables.count(table)}
            for table in {*tables} - {"public."}
        ]
        end = {"status": "END", "id": f"{tx}:{tx * 10}", "event_count": len(made)}
        records += [*made, {**end, "data_collections": counts}]
    return [json.dumps(record).encode() for record in records]


@pytest.mark.parametrize("held_max", [1_000, 0])
@pytest.mark.parametrize("mode", [StreamMode.OUTBOX, StreamMode.MESSAGE])
def test_each_row_has_its_change_by_its_whole_key(
    home: Settings, monkeypatch: pytest.MonkeyPatch, mode: StreamMode, held_max: int
) -> None:
    monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", held_max)
    plan = parcels()
    topic = topic_of(
        mode,
        [weighed("c", "north", 1), weighed("c", "south", 2), weighed("u", "south", 3, 4)],
        [weighed("d", "north")],
        [weighed("c", "north", 5)],
        [None, weighed("c", "north", 6)],
    )
    numbered = list(enumerate(topic))
    monkeypatch.setattr(large, "read_again", lambda _, first, end, __: [numbered[first:end]])
    log = open_change_log(home, plan, Mode(mode))
    sink = ChangeLogSink(log, getattr(published, mode)(plan), plan.key)
    decoder = facts_decoder(plan, plan.tables)
    Follower(home, mode, sink, xid_near=1, given_up=GivenUp(tuple, decoder)).follow(numbered)
    rows = open_table(log.uri).to_pyarrow_table().to_pylist()
    found = {
        (row["the Depot"], row["parcel_no"], row["commit_lsn"]): (
            row["op"],
            row["weighed_at"],
            row["grams"],
        )
        for row in rows
    }
    assert found == {
        (*NORTH, 10): ("c", NOON, [1]),
        (*SOUTH, 10): ("c", NOON, [3, 4]),
        (*NORTH, 20): ("d", None, None),
        (*NORTH, 30): ("c", NOON, [5]),
        (*NORTH, 40): ("u", NOON, [6]),
        (*SOUTH, 40): ("d", None, None),
    }
    assert len(rows) == len(found)


def test_the_columns_of_its_change_log_are_the_results_and_those_of_every_change_log(
    home: Settings,
) -> None:
    plan = parcels()
    names = open_change_log(home, plan, Mode.OUTBOX).schema.names
    assert names[:5] == ["the Depot", "parcel_no", "weighed_at", "grams", "op"]


def in_fact(op: str = "u", **fields: object) -> tuple[str, dict]:
    return FACT, event(1, 1, FACT, op, **fields)


LOCAL_US = 1_767_272_400_000_000
"""13:00 in Berlin, as Debezium sends a local time: NOON."""


@pytest.mark.parametrize(
    ("table", "record", "at"),
    [
        (*in_fact(after={"at": LOCAL_US, "grams": "?"}), NOON),
        (*in_fact("d", before={"at": LOCAL_US}), NOON),
        (*in_fact(after={"weighed_at": NOON.isoformat()}), None),
        (*in_fact(after={"at": "noon"}), None),
        (OUTBOX, as_record(1, 1, weighed("u", "north"), StreamMode.OUTBOX), NOON),
        (MESSAGES, as_record(1, 1, weighed("u", "north"), StreamMode.MESSAGE), NOON),
        (OUTBOX, as_record(1, 1, weighed("d", "north"), StreamMode.OUTBOX), None),
        ("other", event(1, 1, "other", "c", after={"at": LOCAL_US}), None),
    ],
)
def test_the_time_of_a_fact_is_found_in_what_cannot_be_read_otherwise(
    table: str, record: dict, at: datetime | None
) -> None:
    assert FactTime(parcels()).of(json.dumps(record).encode(), table) == at


def test_a_fact_is_refused_by_its_columns_types() -> None:
    decoder: RecordDecoder = facts_decoder(parcels(), parcels().tables)
    row = {"depot": "north", "parcel": "1.05", "at": LOCAL_US, "grams": []}
    value = json.dumps(event(1, 1, FACT, "c", after=row)).encode()
    with pytest.raises(Exception, match=r"column parcel: '1.05' is no numeric\(6,1\)"):
        decoder.decode(value, 0, {FACT})
