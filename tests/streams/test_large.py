"""A transaction, and dimensions, too large for memory give the rows that smaller ones do."""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from lockstep.cdc import transactions
from lockstep.cdc.records import (
    AssignmentRow,
    Change,
    End,
    NameRow,
    OrderRow,
    PizzaRow,
    Record,
    Row,
    SnapshotNotice,
)
from lockstep.contracts import (
    CLIENTS,
    DIMENSION_CHANGES,
    HISTORY,
    ORDERS,
    PIZZAS,
    TABLE_ASSIGNMENT,
    TABLES,
    StreamMode,
    change_log_table,
)
from lockstep.errors import StreamError
from lockstep.settings import Settings
from lockstep.sources.delta import open_table
from lockstep.streams import dimensions, large, modes, runner, temporal
from lockstep.streams.dimensions import FOREVER, stored_history
from lockstep.streams.runner import Runner
from lockstep.supervise.heartbeat import DriverState, Heartbeat, write_heartbeat

SLICE = 25
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
WRITTEN_WHEN = ["seen_at", "written_at"]
DEADLINE_SECONDS = 30


def transaction(tx: int, rows: Sequence[tuple[str, str, Row | None]], start: int) -> list[Record]:
    """Its changes at consecutive offsets, and its END."""
    changes = [
        Change(start + i, tx, i + 1, table, op, row, tx * 1000, tx * 1000)
        for i, (table, op, row) in enumerate(rows)
    ]
    counts: dict[str, int] = {}
    for table, _, _ in rows:
        counts[table] = counts.get(table, 0) + 1
    return [*changes, End(start + len(rows), tx, tx * 10, counts, tx * 1000)]


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
    empty_snapshot = [SnapshotNotice(0, "STARTED"), SnapshotNotice(1, "COMPLETED")]
    first = [*empty_snapshot, *transaction(1, setting_up, start=len(empty_snapshot))]
    return [*first, *transaction(2, all_at_once, start=len(first))]


@pytest.fixture
def topic(monkeypatch: pytest.MonkeyPatch) -> list[Record]:
    """The change topic, whose records are decoded already, in slices."""
    records = evening()

    def read_again(_settings: Settings, first: int, end: int) -> Iterator[list]:
        found = [(record.offset, record) for record in records[first:end]]
        yield from (found[at : at + SLICE] for at in range(0, len(found), SLICE))

    for module in (large, runner):
        monkeypatch.setattr(module, "decode", lambda value, _offset, _wanted: value)
    monkeypatch.setattr(large, "read_again", read_again)
    return records


@pytest.fixture
def little_memory(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    def have() -> None:
        monkeypatch.setattr(transactions, "HELD_CHANGES_MAX", 40)
        monkeypatch.setattr(dimensions, "CACHED_ROWS_MAX", 3)

    return have


def runner_of(spark: object, settings: Settings, mode: str) -> Runner:
    modes.make_tables(settings, mode)
    sink = modes.sink_of(spark, settings, mode)
    return Runner(settings, mode, sink, xid_near=100, skipped=frozenset())


def follow(one: Runner, records: Sequence[Record]) -> None:
    one._advance([(record.offset, record) for record in records])


def content(settings: Settings, mode: StreamMode) -> list[str]:
    rows = open_table(settings.table_uri(change_log_table(mode))).to_pyarrow_table()
    return sorted(map(repr, rows.drop_columns(WRITTEN_WHEN).to_pylist()))


def settings_of(folder: Path) -> Settings:
    return Settings(home=folder / "home", lakehouse=str(folder / "lakehouse"))


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
    snapshot = [SnapshotNotice(0, "STARTED"), SnapshotNotice(1, "COMPLETED")]
    before = [*snapshot, *transaction(1, changes_of_dimensions(rng, 10), start=len(snapshot))]
    at_once = transaction(2, changes_of_dimensions(rng, 4 * SLICE), start=len(before))
    behind = len(before) + len(at_once)
    after = transaction(3, changes_of_dimensions(rng, 10), start=behind)
    topic[:] = [*before, *at_once, *after]
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
                    large.LargeTransaction(settings, one, frozenset(), lambda: None)
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
