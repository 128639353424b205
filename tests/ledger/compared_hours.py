"""Three hours of one mode in the ledger, the last of which differs; the tables of that hour."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, write_deltalake
from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RunCommit
from lockstep.ledger import book
from lockstep.ledger.entries import Comparison, Difference
from lockstep.model.modes import ReadMode, StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.settings import Settings
from pizzeria.names import ORDERS_ENRICHED_BATCH, change_log_table

from tests.pizzeria_tables import CHANGE_LOG_COLUMNS

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
TIME = pa.timestamp("us", "UTC")


def line(hour: int, verdict: Verdict, mode: StreamMode = StreamMode.OUTBOX, **counts: int):
    start = NOON + timedelta(hours=hour)
    return Comparison(
        check_id=f"{mode} {hour}",
        window=Window(start, start + timedelta(hours=1)),
        mode=mode,
        verdict=verdict,
        reason="1 value_mismatch" if verdict is Verdict.FAIL else "",
        run_id="a run",
        cut_snapshot="700:705:701",
        cut_lsn=5000,
        batch_version=3,
        stream_version=4,
        stream_frontier=6000,
        orders_compared=1234,
        definition="abc",
        checked_at=start + timedelta(hours=1, minutes=6),
        seconds=2.0,
        counts={DifferenceClass(kind): count for kind, count in counts.items()},
    )


CHANGE = {"op": "c", "tx_id": 712, "commit_lsn": 4800, "committed_at": "2024-05-01T12:59:58Z"}
ORDER = {
    "order_time": "2024-05-01T12:40:00Z",
    "client_name": "<b>Ada</b>",
    "table_name": "Table 3",
    "pizzas": [{"pizza": "Funghi", "price": "9.50"}],
}
DEARER = ORDER | {"pizzas": [{"pizza": "Funghi", "price": "9.90"}]}
DIFFERENCES = [
    Difference(
        DifferenceClass.VALUE_MISMATCH,
        "[77]",
        '["client_name"]',
        json.dumps(ORDER),
        json.dumps(ORDER | {"client_name": None}),
        json.dumps({"change": CHANGE, "written": CHANGE, "is_same_transaction": True}),
    ),
    Difference(
        DifferenceClass.DIMENSION_DRIFT,
        "[75]",
        '["pizzas"]',
        json.dumps(DEARER),
        json.dumps(ORDER),
        json.dumps(
            {
                "change": CHANGE,
                "explained_by": [
                    {
                        "table": "pizzas",
                        "id": 4,
                        "column": "price",
                        "from": "9.50",
                        "to": "9.90",
                        "tx_id": 719,
                        "committed_at": "2024-05-01T13:01:07Z",
                    }
                ],
            }
        ),
    ),
]


def compared_hours(home: Path) -> Settings:
    """Settings of a home with all of it."""
    settings = Settings(home=home)
    book.append(settings, line(-2, Verdict.PASS), [])
    book.append(settings, line(-1, Verdict.PASS, dimension_drift=3), [])
    failed = line(0, Verdict.FAIL, dimension_drift=1, value_mismatch=1)
    book.append(settings, failed, DIFFERENCES)
    write_tables(settings, failed.window)
    return settings


def write_tables(settings: Settings, window: Window) -> None:
    cut = Cut("a run", "700:705:701", 5000, window.end + timedelta(minutes=5))
    run = RunCommit(window, ReadMode.VIEW, 1, cut)
    committed = window.start + timedelta(minutes=40)
    origin = pa.array([{"committed_at": committed}], pa.struct([("committed_at", TIME)]))
    times = pa.array([committed], TIME)
    write_deltalake(
        settings.table_uri(ORDERS_ENRICHED_BATCH),
        pa.table(
            {
                "order_id": pa.array([75], pa.int64()),
                "order_time": times,
                "origin": origin,
                "run_id": ["a run"],
            }
        ),
        commit_properties=CommitProperties(custom_metadata={"userMetadata": run.as_json()}),
    )
    change = {
        **dict.fromkeys(CHANGE_LOG_COLUMNS),
        "order_id": 75,
        "op": "c",
        "tx_id": 712,
        "order_time": committed,
        "committed_at": committed,
        "written_at": committed + timedelta(milliseconds=400),
        "pizzas": [{"pizza": "Funghi", "price": Decimal("9.50")}],
    }
    rows = pa.Table.from_pylist([change], arrow_schema(CHANGE_LOG_COLUMNS))
    write_deltalake(settings.table_uri(change_log_table(StreamMode.OUTBOX)), rows)
