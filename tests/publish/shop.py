"""A small shop with an hourly table and change logs, real Delta tables made without Spark.

Beside the tables everything is kept in plain dictionaries, which is what the tests compare with.
"""

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake
from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RunCommit
from lockstep.model.modes import ReadMode, StreamMode
from lockstep.model.window import HOUR, Window
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.result_tables import (
    CHANGE_COLUMNS,
    CHANGE_PARTITION,
    HOURLY_COLUMNS,
    HOURLY_PARTITION,
)
from lockstep.pipeline.row_keys import quoted
from lockstep.publish.from_hourly import whole_hours
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog
from lockstep.sinks.table_switch import switch_content
from lockstep.sinks.window_conditions import inside_for_write
from pizzeria.names import ORDERS_ENRICHED, ORDERS_ENRICHED_BATCH, change_log_table

from tests.publish.shapes import PIZZERIA, Shape

PLAN = PIZZERIA.plan
DAY = datetime(2026, 3, 1, 22, tzinfo=UTC)
"""Hour 0: the hours of a history lie on two days."""


def hour(number: int) -> Window:
    return Window(DAY + number * HOUR, DAY + (number + 1) * HOUR)


class Shop:
    """The database, what the hourly runs and the streams made of it, and their clock."""

    def __init__(self, settings: Settings, seed: int = 0, shape: Shape = PIZZERIA) -> None:
        self.settings = settings
        self.shape = shape
        columns = shape.plan.result.columns
        self._log_schema = arrow_schema({**columns, **CHANGE_COLUMNS})
        self._hourly_schema = arrow_schema({**columns, **HOURLY_COLUMNS})
        self.random = random.Random(seed)
        self.lsn = 1000
        self.now: dict[int, dict] = {}
        self.hourly: dict[int, tuple[dict, int]] = {}
        self.windows: list[Window] = []
        self.logs = {mode: [] for mode in StreamMode}
        self._unwritten: dict[StreamMode, list[dict]] = {mode: [] for mode in StreamMode}
        self.capture_id: int | None = 1
        """What the streams' logs say; None: as before captures had numbers."""
        self._ids = 0
        self._lsn_step = 10

    # --- The database -----------------------------------------------------------------------

    def order(self, in_hour: int | None) -> int:
        """A new order of this hour, or without a time; gives its number."""
        self._ids += 1
        time = None
        if in_hour is not None:
            time = hour(in_hour).start + timedelta(seconds=self.random.randrange(3600))
        self.now[self._ids] = self._row(self._ids, time)
        self._committed(self._ids, "c")
        return self._ids

    def change(self, order_id: int) -> None:
        self.now[order_id] = self._row(order_id, self.now[order_id][self.shape.time])
        self._committed(order_id, "u")

    def cancel(self, order_id: int) -> None:
        del self.now[order_id]
        self._committed(order_id, "d")

    @contextmanager
    def one_transaction(self) -> Iterator[None]:
        """All changes of the block commit together."""
        self.lsn += 10
        self._lsn_step = 0
        yield
        self._lsn_step = 10

    def _row(self, order_id: int, time: datetime | None) -> dict:
        made_up = {self.shape.time: time, **self.shape.values(self.random)}
        return self.shape.of_number(order_id) | made_up

    def _committed(self, order_id: int, op: str) -> None:
        self.lsn += self._lsn_step
        for changes in self._unwritten.values():
            changes.append(self._change(order_id, op, self.lsn))

    def _change(self, order_id: int, op: str, lsn: int) -> dict:
        row = self.now.get(order_id, self.shape.of_number(order_id))
        return row | {
            "op": op,
            "tx_id": lsn or None,
            "commit_lsn": lsn,
            "is_raced": False,
            **dict.fromkeys(("committed_at", "captured_at", "seen_at", "written_at"), DAY),
            CHANGE_PARTITION: DAY.date(),
        }

    # --- The hourly runs --------------------------------------------------------------------

    def run(self, window: Window) -> None:
        """An hourly run reads the window now, and replaces it; without windows the whole table."""
        self.lsn += 10
        old = {i: kept for i, kept in self.hourly.items() if not self.is_in(kept[0], window)}
        new = {i: (row, self.lsn) for i, row in self.now.items() if self.is_in(row, window)}
        self.hourly = old | new
        self.windows.append(window)
        cut = Cut(f"run at {self.lsn}", "700:720:", self.lsn, window.end)
        if not self.shape.has_windows:
            whole = RunCommit(None, ReadMode.TABLES, 0, cut)
            self._write_hourly(self.hourly.values(), None, whole)
            return
        hours = whole_hours(window)
        touched = [kept for kept in self.hourly.values() if self.is_in(kept[0], hours)]
        where = inside_for_write(hours, quoted(self.shape.time))
        self._write_hourly(touched, where, RunCommit(window, ReadMode.VIEW, 0, cut))

    def is_in(self, row: dict, window: Window) -> bool:
        """Whether a run of the window replaces the row."""
        return not self.shape.has_windows or window.start <= row[self.shape.time] < window.end

    def correct_by_hand(self, order_id: int) -> None:
        """Somebody changes a row of the hourly table, which is no run."""
        row, lsn = self.hourly[order_id]
        self.hourly[order_id] = (row | {self.shape.text: "by hand"}, lsn)
        DeltaTable(self.settings.table_uri(ORDERS_ENRICHED_BATCH)).update(
            predicate=self.shape.plan.row_keys.condition([self.shape.key(order_id)]),
            new_values={quoted(self.shape.text): "by hand"},
        )

    def _write_hourly(
        self, kept: Iterable[tuple[dict, int]], where: str | None, run: RunCommit
    ) -> None:
        rows = [
            row
            | {HOURLY_PARTITION: row[self.shape.time].date()}
            | {"run_id": f"run at {lsn}", "cut_snapshot": "700:720:", "cut_lsn": lsn}
            for row, lsn in kept
        ]
        uri = self.settings.table_uri(ORDERS_ENRICHED_BATCH)
        if not DeltaTable.is_deltatable(uri):
            DeltaTable.create(uri, self._hourly_schema, partition_by=[HOURLY_PARTITION])
        write_deltalake(
            uri,
            pa.Table.from_pylist(rows, self._hourly_schema),
            mode="overwrite",
            predicate=where,
            commit_properties=CommitProperties(custom_metadata={"userMetadata": run.as_json()}),
        )

    # --- The streams ------------------------------------------------------------------------

    def begin_capture(self, mode: StreamMode, *, with_snapshot: bool) -> None:
        """The stream begins now: with a snapshot of all orders, or knowing none of before."""
        self._unwritten[mode] = [self._change(i, "c", 0) for i in self.now if with_snapshot]
        self.stream(mode)

    def stream(self, mode: StreamMode, behind: int = 0) -> int:
        """The stream writes its log, except for the last `behind` changes; gives its frontier."""
        unwritten = self._unwritten[mode]
        count = max(0, len(unwritten) - behind)
        written, self._unwritten[mode] = unwritten[:count], unwritten[count:]
        frontier = written[-1]["commit_lsn"] if self._unwritten[mode] and written else self.lsn
        if self._unwritten[mode] and not written:
            return -1
        self.logs[mode] += written
        uri = self.settings.table_uri(change_log_table(mode))
        self._append(uri, written, frontier)
        return frontier

    def reset_capture(self, capture_id: int | None, lsn: int) -> None:
        """`capture reset`: another snapshot, at this LSN; the changes not written yet are lost."""
        self.capture_id, self.lsn = capture_id, lsn
        self._unwritten = {mode: [] for mode in StreamMode}

    def rebuild(self, mode: StreamMode, *, from_snapshot: bool) -> None:
        """`stream rebuild`: the snapshot's orders, or the changes that the log had already."""
        if from_snapshot:
            self.logs[mode] = [self._change(i, "c", 0) for i in self.now]
        new = self.settings.table_uri(f"{change_log_table(mode)}_{self.lsn}")
        self._append(new, self.logs[mode], self.lsn)
        switch_content(self.settings.table_uri(change_log_table(mode)), new)

    def _append(self, uri: str, changes: list[dict], frontier: int) -> None:
        log = AppendLog(uri, self._log_schema, CHANGE_PARTITION, 24, self.capture_id)
        log.append(pa.Table.from_pylist(changes, self._log_schema), frontier, frontier)


class Expected:
    """What the published table should hold, by the rules alone: order id → row, feed, position."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop
        self.feed = "batch"
        self.rows: dict[int, tuple[dict, str, int]] = {}
        self._seen_lsn = -1

    def publish(self) -> None:
        """All that the feed has."""
        if self.feed == "batch":
            self.replace(self.shop.windows)
        else:
            self._apply(StreamMode(self.feed), self._seen_lsn)

    def replace(self, windows: Iterable[Window]) -> None:
        for window in windows:
            is_in = self.shop.is_in
            self.rows = {i: one for i, one in self.rows.items() if not is_in(one[0], window)}
            for i, (row, lsn) in self.shop.hourly.items():
                if is_in(row, window):
                    self.rows[i] = (row, "batch", lsn)

    def switch(self, feed: str) -> None:
        self.feed = feed
        if feed == "batch":
            self.replace(self.shop.windows)
        else:
            self._apply(StreamMode(feed), -1)

    def _apply(self, mode: StreamMode, after: int) -> None:
        for change in self.shop.logs[mode]:
            if change["commit_lsn"] <= after:
                continue
            shape = self.shop.shape
            row = {name: change[name] for name in shape.plan.result.columns}
            if change["op"] == "d":
                self.rows.pop(shape.number_of(row), None)
            else:
                self.rows[shape.number_of(row)] = (row, str(mode), change["commit_lsn"])
            self._seen_lsn = change["commit_lsn"]


def published(
    settings: Settings, version: int | None = None, shape: Shape = PIZZERIA
) -> dict[int, tuple[dict, str, int]]:
    """The published table as Expected has it. Fails when an order is there twice."""
    table = DeltaTable(settings.table_uri(ORDERS_ENRICHED), version=version)
    rows = table.to_pyarrow_table().to_pylist()
    found = {}
    for row in rows:
        number = shape.number_of(row)
        assert number not in found, f"order {number} is there twice"
        if shape.has_windows:
            time = row[shape.time]
            own = (time.date(), time.hour) if time else (None, None)
            assert (row.pop("order_date"), row.pop("order_hour")) == own
        fed_by, position = row.pop("fed_by"), row.pop("position")
        found[number] = (row, fed_by, position)
    return found


def version_of(settings: Settings) -> int:
    """Of the published table; -1 while there is none."""
    uri = settings.table_uri(ORDERS_ENRICHED)
    return DeltaTable(uri).version() if DeltaTable.is_deltatable(uri) else -1
