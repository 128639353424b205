"""A stream that dies at any point of a micro-batch: its successor makes it whole, in every mode.

A runner and its Delta tables are real; the change topic is made up. Mode transaction gets
micro-batches as Spark hands them over: one that was not finished comes again. The others get
records as the source's reader does, from the table's offset on.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from lockstep import faults
from lockstep.cdc import transactions
from lockstep.faults import Point
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.settings import Settings
from lockstep.sinks import maintenance
from lockstep.sinks.append_log import reached_of
from lockstep.sources import change_topic
from lockstep.sources.delta import open_table
from lockstep.sources.row_lookup import RowLookup
from lockstep.streams import large, needed_versions, reader_runner
from lockstep.streams import writer as writing
from lockstep.streams.micro_batches import Stage
from lockstep.streams.rows import change_log_schema
from pizzeria.names import ORDERS, SOURCE_HISTORY, change_log_table

from tests.fault_rounds import MORE_ROUNDS, seeded
from tests.streams.pizzeria import LSN_STEP, Pizzeria, as_content, as_row, as_version
from tests.streams.topics import (
    PLAN,
    SLICE,
    ReadHere,
    micro_batches_of,
    settings_of,
    upkeep_at_once,
)

SLICES_OF_LARGE = 6
"""Of a large transaction; it is read twice for what look-ups lead to and twice for the orders."""
GROWTH_MAX = 30
"""A topic that grew so often had every kind of transaction often enough for any point."""
LOOKED_UP = ["order_time", "client_name", "table_name", "pizzas", "is_raced"]
JOINS = {StreamMode.TEMPORAL, StreamMode.TRANSACTION}
LOG_SCHEMA = change_log_schema(PLAN.result, StreamMode.LOOKUP)


class CrashError(Exception):
    """Ends the stream at a point, in place of SIGKILL."""


class Fault:
    """Crashes at a point of a mode, when it is reached for the number-th time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
        self._monkeypatch, self._mode = monkeypatch, mode
        self.number = 0
        monkeypatch.setattr(faults, "die", self._die)

    def arm(self, point: Point, number: int) -> None:
        self.number = number
        self._monkeypatch.setattr(faults, "_FAULT", f"{self._mode}:{point}")

    def _die(self) -> None:
        self.number -= 1
        if self.number <= 0:
            raise CrashError


class MicroBatch:
    """What Spark hands over: records of the topic."""

    def __init__(self, first: int, values: Sequence[bytes]) -> None:
        self._columns = {"offset": range(first, first + len(values)), "value": values}

    def toArrow(self) -> pa.Table:  # noqa: N802 - Spark's name
        return pa.table({name: list(values) for name, values in self._columns.items()})


class Stream:
    """A mode's records, some at a time; for each run a new runner.

    Of Spark's micro-batches the topic has no more than the last one that was begun.
    """

    def __init__(self, shop: Pizzeria, settings: Settings, mode: str, spark: object = None) -> None:
        self._shop, self._settings, self._mode, self._spark = shop, settings, mode, spark
        self._end = 0

    def run(self, until: int | None = None) -> None:
        """A new runner, until it has read so far (None: to the topic's end), or crashes."""
        end = len(self._shop.topic) if until is None else until
        if self._mode == StreamMode.TRANSACTION:
            self._run_micro_batches(end)
            return
        one = ReadHere(self._spark, self._settings, self._mode)
        while one.next_offset < end:
            one.take(self._shop.topic[one.next_offset :][: self._shop.rng.randrange(1, 150)])

    def _run_micro_batches(self, until: int) -> None:
        """What the topic had as it starts it reads by itself, the rest in micro-batches."""
        stage = Stage(lambda records: records, lambda rows: rows)
        one = micro_batches_of(self._spark, self._settings, self._mode, stage)
        with upkeep_at_once(one):
            one._catch_up(self._end)
            if one.error is not None:
                raise one.error
        while self._end < until:
            first, size = self._end, self._shop.rng.randrange(1, 150)
            self._end = min(first + size, len(self._shop.topic))
            with upkeep_at_once(one):
                one._micro_batch(MicroBatch(first, self._shop.topic[first : self._end]), 0)


class WhileWaiting:
    """Time for a mode that waits for the source's history: meanwhile that is written."""

    def __init__(self, mode: str, history: Stream) -> None:
        self._mode, self._history = mode, history

    def monotonic(self) -> float:
        return 0.0

    def sleep(self, _seconds: float) -> None:
        self._history.run()
        faults.in_mode(self._mode)


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Pizzeria:
    """A pizzeria whose topic is read again in slices, and little room for everything."""
    shop = Pizzeria(seeded(request.node.name))
    monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", 20)
    monkeypatch.setattr(writing, "WRITTEN_TOGETHER_MAX", 4)
    monkeypatch.setattr(reader_runner, "IDLE_SECONDS", 0.0)
    monkeypatch.setattr(maintenance, "MAINTAIN_COMMITS", 4)
    monkeypatch.setattr(maintenance, "VACUUM_MAINTENANCES", 1)
    serve(monkeypatch, shop)
    return shop


def serve(monkeypatch: pytest.MonkeyPatch, shop: Pizzeria) -> None:
    """The topic for what reads it again, and the database for who looks orders up in it."""

    def read_again(_: Settings, first: int, end: int, _topic: str = "") -> Iterator[list]:
        found = list(enumerate(shop.topic[first:end], start=first))
        yield from (found[at : at + SLICE] for at in range(0, len(found), SLICE))

    def look_up(_: RowLookup, asked: pa.Table) -> pa.Table:
        """As each order was at its commit."""
        keys = [(one["order_id"], one["tx_id"] * LSN_STEP) for one in asked.to_pylist()]
        schema = pa.schema([LOG_SCHEMA.field(name) for name in ("order_id", *LOOKED_UP)])
        rows = [as_row(key[0], shop.orders[key]) for key in keys]
        found = pa.Table.from_pylist(rows, schema).select(LOOKED_UP)
        for name, type_ in (("snapshot", pa.string()), ("wal_lsn", pa.int64())):
            found = found.append_column(name, pa.nulls(len(rows), type_))
        return found

    monkeypatch.setattr(change_topic, "read_again", read_again)
    monkeypatch.setattr(change_topic, "end_offset", lambda *_: len(shop.topic))
    monkeypatch.setattr(large, "read_again", read_again)
    monkeypatch.setattr(RowLookup, "rows", look_up)


def written(settings: Settings, table: str) -> tuple[list[dict], int]:
    """The rows of the table's newest version, and its frontier."""
    opened = open_table(settings.table_uri(table))
    frontier = reached_of(opened).frontier
    return opened.to_pyarrow_table().to_pylist(), -1 if frontier is None else frontier


def require_prefix(
    shop: Pizzeria, settings: Settings, mode: str, *, is_whole: bool = False
) -> None:
    """The mode's tables say all that was committed up to their frontier.

    is_whole: that is all that the pizzeria did. A frontier may lie before a last transaction that
    has nothing for its table: it moves every few seconds then.
    """
    if mode != HISTORY:
        rows, frontier = written(settings, change_log_table(StreamMode(mode)))
        found = [((row["order_id"], row["commit_lsn"]), as_content(row)) for row in rows]
        expected = {key: row for key, row in shop.orders.items() if key[-1] <= frontier}
        assert len(found) == len(expected), "a change twice, or missing, or too early"
        assert dict(found) == expected
        assert not is_whole or expected == shop.orders
    else:
        rows, frontier = written(settings, SOURCE_HISTORY)
        found = {as_version(row) for row in rows if row["table"] != f"public.{ORDERS}"}
        assert found <= set(shop.rows.items())
        expected = {one for one in shop.rows.items() if one[0][-1] <= frontier}
        assert {one for one in found if one[0][-1] <= frontier} == expected
        assert not is_whole or expected == set(shop.rows.items())


def crash(stream: Stream, shop: Pizzeria, fault: Fault) -> None:
    """Run until the armed fault has happened; the topic grows meanwhile."""
    for _ in range(GROWTH_MAX):
        shop.go_on()
        try:
            stream.run()
        except Exception:  # one that delta-rs has passed on is another
            if fault.number > 0:
                raise
            return
    pytest.fail("the point was never reached")


OF_NEW_TABLES = {point for point in Point if point.startswith("side_")} | {
    Point.BEFORE_HISTORY_TABLES,
    Point.AFTER_HISTORY_TABLES,
}
"""Those of tests/late_tables."""


def points_of(mode: str) -> list[Point]:
    points = set(Point) - OF_NEW_TABLES
    if mode == HISTORY:
        points -= {Point.BEFORE_CHANGE_LOG, Point.AFTER_CHANGE_LOG}
    else:
        points -= {Point.BEFORE_HISTORY, Point.AFTER_HISTORY, Point.AFTER_HISTORY_SLICE}
    return sorted(points)


def number_of(rng: random.Random, point: Point) -> int:
    """Which time the point is to be reached: any slice of the large transaction, or the next."""
    return rng.randrange(1, 4 * SLICES_OF_LARGE if point is Point.WITHIN_LARGE else 4)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mode",
    [
        HISTORY,
        *(pytest.param(m, marks=[pytest.mark.spark] if m in JOINS else []) for m in StreamMode),
    ],
)
def test_a_stream_that_dies_anywhere_leaves_what_the_database_says(
    shop: Pizzeria,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
    mode: str,
) -> None:
    spark = request.getfixturevalue("spark") if mode in JOINS else None
    # Old versions are not kept, so that the vacuum removes what it can.
    settings = settings_of(tmp_path).model_copy(update={"stream_versions_kept_hours": 0})
    points = points_of(mode)
    within = [Point.WITHIN_LARGE] * (1 if mode in JOINS else 4)  # a Spark join for each slice
    todo = [*points, *within, *shop.rng.choices(points, k=MORE_ROUNDS)]
    shop.rng.shuffle(todo)
    fault = Fault(monkeypatch, mode)
    stream, history = (Stream(shop, settings, name, spark) for name in (mode, HISTORY))
    monkeypatch.setattr(needed_versions, "time", WhileWaiting(mode, history))
    for point in todo:
        fault.arm(point, number_of(shop.rng, point))
        crash(stream, shop, fault)
        require_prefix(shop, settings, mode)
        if mode in JOINS:  # by then its own query has written some of it
            history.run(until=shop.rng.randrange(len(shop.topic)))
    monkeypatch.setattr(faults, "_FAULT", "")
    stream.run()
    require_prefix(shop, settings, mode, is_whole=True)
