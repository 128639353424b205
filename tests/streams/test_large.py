"""Transactions, snapshots, dimensions too large for memory give the rows that smaller ones do."""

import random
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from lockstep.cdc import transactions
from lockstep.cdc.order_records import (
    AssignmentRow,
    NameRow,
    OrderRow,
    PizzaRow,
    PricedPizza,
    PublishedOrder,
    Row,
)
from lockstep.cdc.records import Change, Record, SnapshotNotice
from lockstep.errors import StreamError
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.pizzeria import (
    CLIENTS,
    DIMENSION_CHANGES,
    ORDERS,
    OUTBOX,
    PIZZAS,
    TABLE_ASSIGNMENT,
    TABLES,
    change_log_table,
)
from lockstep.settings import Settings
from lockstep.sources.delta import open_table
from lockstep.streams import dimensions, large, modes, temporal
from lockstep.streams.dimensions import FOREVER, stored_history
from lockstep.supervise.heartbeat import DriverState, Heartbeat, write_heartbeat

from tests.cdc.histories import placed
from tests.streams.topics import (
    EMPTY_SNAPSHOT,
    SLICE,
    follow,
    passing,
    runner_of,
    serve,
    settings_of,
    topic_of,
)

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WRITTEN_WHEN = ["seen_at", "written_at"]
DEADLINE_SECONDS = 30


def order(number: int, seating: int) -> OrderRow:
    return OrderRow(number, seating, NOON + timedelta(minutes=number), [number % 5, seating % 5])


def evening() -> list[Record]:
    """A pizzeria is set up, and orders; then all changes at once, with a TRUNCATE amidst."""
    setting_up = [
        *((PIZZAS, "c", PizzaRow(i, f"Pizza {i}", Decimal(5 + i))) for i in range(5)),
        *((TABLES, "c", NameRow(i, f"Table {i}")) for i in range(6)),
        *((CLIENTS, "c", NameRow(i, f"Client {i}")) for i in range(6)),
        *((TABLE_ASSIGNMENT, "c", AssignmentRow(i, i % 6, 5 - i % 6)) for i in range(9)),
        *((ORDERS, "c", order(i, i % 9)) for i in range(4)),
    ]
    all_at_once = [
        (PIZZAS, "u", PizzaRow(2, "Pizza 2", Decimal("9.50"))),
        (CLIENTS, "u", NameRow(3, "Client 3, about to marry")),
        *((ORDERS, "c", order(i, i % 9)) for i in range(10, 30)),
        (TABLE_ASSIGNMENT, "u", AssignmentRow(4, 0, 0)),
        (ORDERS, "t", None),
        (CLIENTS, "c", NameRow(7, "Client 7")),
        (CLIENTS, "u", NameRow(3, "Client 3, married")),
        (TABLE_ASSIGNMENT, "c", AssignmentRow(9, 7, 1)),
        *((ORDERS, "c", order(i, i % 10)) for i in range(30, 55)),
        (ORDERS, "u", order(31, 9)),
        (ORDERS, "d", order(32, 2)),
        (CLIENTS, "d", NameRow(5, "Client 5")),
    ]
    return topic_of(setting_up, all_at_once)


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """The change topic, whose records are decoded already, in slices."""
    records = evening()
    serve(monkeypatch, records)
    return records


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def have() -> None:
        monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", 40)
        monkeypatch.setattr(dimensions, "CACHED_ROWS_MAX", 3)

    return have


def content(settings: Settings, mode: str) -> list[str]:
    table = DIMENSION_CHANGES if mode == HISTORY else change_log_table(StreamMode(mode))
    rows = open_table(settings.table_uri(table)).to_pyarrow_table()
    kept = [name for name in rows.column_names if name not in WRITTEN_WHEN]
    return sorted(map(repr, rows.select(kept).to_pylist()))


@pytest.mark.spark
@pytest.mark.parametrize("mode", [StreamMode.TEMPORAL, StreamMode.TRANSACTION])
def test_too_large_for_memory_gives_the_same_rows(
    spark, tmp_path: Path, topic: list[Record], little_memory: Callable[[], None], mode: StreamMode
) -> None:
    written = {}
    for memory in ("enough", "little"):
        if memory == "little":
            little_memory()
        settings = settings_of(tmp_path / memory)
        one = runner_of(spark, settings, mode)
        if mode is StreamMode.TRANSACTION:
            history = runner_of(spark, settings, HISTORY)
            writing = threading.Thread(target=follow, args=(history, topic))
            writing.start()  # at the same time: the mode has to wait for it
        follow(one, topic)
        if mode is StreamMode.TRANSACTION:
            writing.join(DEADLINE_SECONDS)
        written[memory] = content(settings, mode)
        assert (one.progress.last_progress_at is not None) is (memory == "little")
    assert len(written["enough"]) == 4 + 4 + 20 + 25
    assert written["little"] == written["enough"]


def shown(number: int, name: str, op: str = "c") -> PublishedOrder:
    pizzas = [PricedPizza(f"Pizza {number % 5}", Decimal(number) / 4), PricedPizza(None, None)]
    return PublishedOrder(op, number, NOON, name, f"Table {number % 6}", pizzas)


def snapshot() -> list[Record]:
    """A pizzeria of before the capture; of the orders that the outbox has, 70 to 79 changed."""
    rows = [
        *((PIZZAS, PizzaRow(i, f"Pizza {i}", Decimal(i) / 4)) for i in range(30)),
        *((TABLES, NameRow(i, f"Table {i}")) for i in range(30)),
        *((CLIENTS, NameRow(i, f"Client {i}")) for i in range(30)),
        *((TABLE_ASSIGNMENT, AssignmentRow(i, i % 6, 5 - i % 6)) for i in range(30)),
        *((ORDERS, order(i, i % 30)) for i in range(80)),
        *((OUTBOX, shown(i, f"Client {i}")) for i in range(80)),
        *((OUTBOX, shown(i, f"Client {i}, married", "u")) for i in range(70, 80)),
    ]
    read = [
        Change(offset, None, offset, table, "r", row, offset * 1000, offset * 1000)
        for offset, (table, row) in enumerate(rows, start=1)
    ]
    return [SnapshotNotice(0, "STARTED"), *read, SnapshotNotice(len(rows) + 1, "COMPLETED")]


@pytest.mark.parametrize(
    ("mode", "count", "says"),
    [
        (StreamMode.OUTBOX, 80, ["Client 0'", "Client 79, married", "Decimal('19.75')"]),
        (HISTORY, 120, ["Client 29'", "Pizza 29", "Decimal('7.25')"]),
    ],
)
def test_a_snapshot_too_large_for_memory_gives_the_same_rows(
    tmp_path: Path,
    topic: list[Record],
    little_memory: Callable[[], None],
    mode: str,
    count: int,
    says: list[str],
) -> None:
    topic[:] = snapshot()
    written = {}
    for memory in ("enough", "little"):
        if memory == "little":
            little_memory()
        settings = settings_of(tmp_path / memory)
        one = runner_of(None, settings, mode)
        follow(one, topic)
        written[memory] = content(settings, mode)
        assert (one.progress.last_progress_at is not None) is (memory == "little")
        assert one.reached.frontier == 0
    assert len(written["enough"]) == count
    assert all(any(text in row for row in written["enough"]) for text in says)
    assert written["little"] == written["enough"]


def test_a_change_that_comes_again_within_a_large_transaction_is_not_its_last(
    tmp_path: Path, topic: list[Record], little_memory: Callable[[], None]
) -> None:
    """A connector that was killed sends the transaction's first changes again."""
    inserted = [(OUTBOX, "c", shown(number, "Client")) for number in range(30)]
    changed = [(OUTBOX, "c", shown(number, "Client, married", "u")) for number in range(30)]
    *records, end = topic_of([*inserted, *changed])
    again = records[len(EMPTY_SNAPSHOT) :][: len(inserted)]
    topic[:] = placed([*records, *again, end])
    written = {}
    for memory in ("enough", "little"):
        if memory == "little":
            little_memory()
        settings = settings_of(tmp_path / memory)
        follow(runner_of(None, settings, StreamMode.OUTBOX), topic)
        written[memory] = content(settings, StreamMode.OUTBOX)
    assert len(written["enough"]) == 30
    assert all("Client, married" in row for row in written["enough"])
    assert written["little"] == written["enough"]


def changes_of_dimensions(rng: random.Random, count: int) -> list[tuple[str, str, Row | None]]:
    """Rows made, changed, changed again and deleted; and now and then a dimension truncated."""

    def name() -> NameRow:
        return NameRow(rng.randrange(8), f"name {rng.randrange(10**6)}")

    acts = rng.choices("cudt", (4, 4, 2, 0.3), k=count)
    return [(rng.choice((CLIENTS, TABLES)), act, None if act == "t" else name()) for act in acts]


def last_states(history: temporal.History) -> dict[str, dict[int, str]]:
    """The rows that there are, by dimension and id; of a dimension beyond the cache none."""
    return {
        dimension: {
            row["id"]: row["name"]
            for row in history.cached.relation(dimension, range(8)).to_pylist()
            if row["valid_to"] == FOREVER
        }
        for dimension in (CLIENTS, TABLES)
        if history.cached.holds(dimension)
    }


def states_in_delta(settings: Settings) -> dict[str, dict[int, str]]:
    table = open_table(settings.table_uri(DIMENSION_CHANGES)).to_pyarrow_table()
    rows = sorted(table.to_pylist(), key=lambda row: row["commit_lsn"])
    states = {dimension: {} for dimension in (CLIENTS, TABLES)}
    for row in rows:
        states[row["dimension"]][row["id"]] = None if row["op"] == "d" else row["name"]
    return {
        dimension: {id_: name for id_, name in found.items() if name is not None}
        for dimension, found in states.items()
    }


def states_by_hand(records: Sequence[Record]) -> dict[str, dict[int, str]]:
    states = {dimension: {} for dimension in (CLIENTS, TABLES)}
    for one in records:
        if isinstance(one, Change) and one.op == "t":
            states[one.table].clear()
        elif isinstance(one, Change) and one.op == "d":
            states[one.table].pop(one.row.id, None)
        elif isinstance(one, Change):
            states[one.table][one.row.id] = one.row.name
    return states


@pytest.mark.parametrize("cached_max", [100, 3])
@pytest.mark.parametrize("seed", range(5))
def test_rows_that_a_large_transaction_changes_again_have_their_last_state(
    tmp_path: Path,
    topic: list[Record],
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    cached_max: int,
) -> None:
    monkeypatch.setattr(dimensions, "CACHED_ROWS_MAX", cached_max)
    rng = random.Random(seed)
    topic[:] = topic_of(*(changes_of_dimensions(rng, count) for count in (10, 4 * SLICE, 10)))
    expected = states_by_hand(topic)
    assert any(expected.values())
    for held_max in (1_000, 40):
        monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", held_max)
        settings = settings_of(tmp_path / str(held_max))
        history = temporal.History(settings, dimensions.history_log(settings), None)
        together: list[transactions.Transaction] = []
        for one in tracker().feed(topic):
            if one.changes is None:
                history.learn(together, 0)
                together = []
                history.learn_large(
                    large.LargeTransaction(settings, one, passing(), lambda: None), 0
                )
            else:
                together.append(one)
        history.learn(together, 0)
        assert states_in_delta(settings) == expected
        stored = temporal.History(settings, None, None)
        assert last_states(stored).items() <= expected.items()
        assert last_states(history).items() <= expected.items()
        assert len(last_states(history)) == (2 if cached_max == 100 else 0)


@pytest.fixture
def waiting(tmp_path: Path, little_memory: Callable[[], None]) -> temporal.History:
    """Of a mode that does not write the history, with a dimension beyond the cache."""
    little_memory()
    history = temporal.History(settings_of(tmp_path), None, None)
    history.learn(transactions_of(evening()), 0)
    return history


@pytest.mark.spark
def test_a_join_is_made_ready_without_the_history_that_it_will_need(
    spark, waiting: temporal.History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The query that writes the history may be one that the same driver starts later."""
    monkeypatch.setattr(temporal, "STORED_SECONDS_MAX", 0.0)
    temporal.TemporalEnrichment(spark, waiting)
    with pytest.raises(StreamError, match="does not get on"):
        waiting.relation(spark, CLIENTS, {1})


class Clock:
    """Moves by half of the patience with each pause; then `pause` does what happens meanwhile."""

    def __init__(self, pause: Callable[[], None]) -> None:
        self.pauses = 0
        self._pause = pause

    def monotonic(self) -> float:
        return self.pauses * temporal.STORED_SECONDS_MAX / 2

    def sleep(self, _seconds: float) -> None:
        self.pauses += 1
        self._pause()


def transactions_of(records: list[Record]) -> list[transactions.Transaction]:
    return tracker().feed(records)


def tracker() -> transactions.TransactionTracker:
    return transactions.TransactionTracker(
        wanted=modes.HistorySink.wanted, frontier=None, next_offset=0, xid_near=100
    )


def beat(settings: Settings, at: datetime) -> None:
    write_heartbeat(
        settings, Heartbeat(HISTORY, 1, at, at, DriverState.RUNNING, last_progress_at=at)
    )


def test_the_history_is_waited_for_as_long_as_its_query_gets_on(
    waiting: temporal.History, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings, told = settings_of(tmp_path), []

    def get_on() -> None:
        beat(settings, NOON + timedelta(seconds=clock.pauses))
        if clock.pauses == 7:
            written = temporal.History(settings, dimensions.history_log(settings), None)
            written.learn(transactions_of(evening()), 0)

    clock = Clock(get_on)
    monkeypatch.setattr(temporal, "time", clock)
    waiting.wait_until_stored(lambda: told.append(clock.pauses))
    assert clock.monotonic() > 3 * temporal.STORED_SECONDS_MAX
    assert told == [1, 2, 3, 4, 5, 6]
    assert stored_history(settings).frontier == 20


def test_a_history_that_does_not_get_on_is_named(
    waiting: temporal.History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(temporal, "time", Clock(lambda: None))
    with pytest.raises(StreamError, match="does `temporal` or `history` run"):
        waiting.wait_until_stored()


def test_a_row_that_a_large_transaction_inserts_and_changes_is_a_new_one(
    tmp_path: Path, topic: list[Record], little_memory: Callable[[], None]
) -> None:
    rows = [NameRow(number, f"Client {number}") for number in range(30)]
    inserted = [(CLIENTS, "c", row) for row in rows]
    topic[:] = topic_of([*inserted, *((CLIENTS, "u", row) for row in rows)])
    written = {}
    for memory in ("enough", "little"):
        if memory == "little":
            little_memory()
        settings = settings_of(tmp_path / memory)
        follow(runner_of(None, settings, HISTORY), topic)
        written[memory] = content(settings, HISTORY)
    assert len(written["enough"]) == 30
    assert all("'op': 'c'" in row for row in written["enough"])
    assert written["little"] == written["enough"]
