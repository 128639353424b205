"""The streams on the real stack: equal to the outbox, through crashes and a poisoned record."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator

import psutil
import pytest
from confluent_kafka import Producer
from deltalake import DeltaTable
from lockstep.contracts import CHANGE_TOPIC, StreamMode, change_log_table
from lockstep.errors import StreamBusyError, StreamError, StreamFailedError
from lockstep.settings import Settings
from lockstep.shop.generator import generate
from lockstep.sinks.append_log import reached_of
from lockstep.sources.change_topic import end_offset
from lockstep.streams.skip import skip_record
from lockstep.supervise import launcher, lease
from lockstep.supervise.heartbeat import read_heartbeat

pytestmark = [pytest.mark.e2e, pytest.mark.services]

MODES = [StreamMode.LOOKUP, StreamMode.OUTBOX, StreamMode.MESSAGE, StreamMode.TEMPORAL]
COMPARED = ("order_time", "client_name", "table_name", "pizzas", "op", "tx_id", "committed_at")
CAUGHT_UP_SECONDS_MAX = 180.0


@pytest.fixture
def streams(change_capture: Settings) -> Iterator[Settings]:
    """The modes started in one driver, and stopped at the end."""
    launcher.start(change_capture, MODES, "test")
    yield change_capture
    launcher.stop_all(change_capture, "test")


def until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + CAUGHT_UP_SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"not within {CAUGHT_UP_SECONDS_MAX} s: {what}"
        time.sleep(0.2)


def wait_until_caught_up(settings: Settings) -> None:
    """Every mode has seen all that is in the topic now, and has written it."""
    target = end_offset(settings) - 1

    def caught_up() -> bool:
        beats = [read_heartbeat(settings, mode) for mode in MODES]
        return all((beat.next_offset or 0) >= target for beat in beats)

    until(caught_up, f"every mode at offset {target}")
    behind = frontier(settings, StreamMode.OUTBOX)
    until(
        lambda: all(frontier(settings, mode) >= behind for mode in MODES),
        f"every mode at {behind}",
    )


def table(settings: Settings, mode: StreamMode) -> DeltaTable:
    return DeltaTable(settings.table_uri(change_log_table(mode)))


def frontier(settings: Settings, mode: StreamMode) -> int:
    return reached_of(table(settings, mode)).frontier or 0


def changes(settings: Settings, mode: StreamMode, up_to: int) -> dict[tuple[int, int], dict]:
    """The change log by order and commit; a change that is there twice fails."""
    rows = table(settings, mode).to_pyarrow_table().to_pylist()
    found = {(row["order_id"], row["commit_lsn"]): row for row in rows}
    assert len(found) == len(rows), f"{mode} has a change twice"
    return {key: row for key, row in found.items() if 0 < key[1] <= up_to}


def compared(row: dict) -> dict:
    return {name: row[name] for name in COMPARED}


def assert_equal_to_the_outbox(settings: Settings) -> int:
    """All modes change by change; the look-up but for rows it marked. Returns the changes."""
    wait_until_caught_up(settings)
    up_to = min(frontier(settings, mode) for mode in MODES)
    outbox = changes(settings, StreamMode.OUTBOX, up_to)
    for mode in MODES:
        other = changes(settings, mode, up_to)
        assert other.keys() == outbox.keys(), mode
        wrong = [
            (row, outbox[key])
            for key, row in other.items()
            if compared(row) != compared(outbox[key]) and not row["is_raced"]
        ]
        assert not wrong, (mode, wrong[:2])
        assert mode is StreamMode.LOOKUP or not any(row["is_raced"] for row in other.values())
    return len(outbox)


def test_every_mode_equals_the_outbox_also_after_its_driver_was_killed(
    streams: Settings,
) -> None:
    generate(streams, rate=20, seconds=10, seed=41)
    before = assert_equal_to_the_outbox(streams)
    assert before >= 200

    with pytest.raises(StreamBusyError):
        launcher.start(streams, [StreamMode.OUTBOX], "a second start")

    driver = psutil.Process(lease.holder(streams, StreamMode.TEMPORAL))
    family = [driver, *driver.children(recursive=True)]
    os.kill(driver.pid, signal.SIGKILL)
    generate(streams, rate=20, seconds=5, seed=42)
    psutil.wait_procs(family, timeout=60)
    launcher.start(streams, MODES, "test")
    assert assert_equal_to_the_outbox(streams) >= before + 100


def test_a_record_that_cannot_be_read_stops_by_name_until_it_is_given_up(
    streams: Settings,
) -> None:
    wait_until_caught_up(streams)
    producer = Producer({"bootstrap.servers": streams.kafka_bootstrap})
    producer.produce(CHANGE_TOPIC, value=json.dumps({"op": "c", "source": None}), partition=0)
    assert producer.flush(30) == 0
    until(lambda: all(lease.holder(streams, mode) is None for mode in MODES), "every mode stopped")
    error = read_heartbeat(streams, StreamMode.OUTBOX).error
    assert error.name == "PoisonedRecordError"
    offset = int(error.message.split("offset ")[1].split()[0])

    with pytest.raises(StreamError, match="can be read"):
        skip_record(streams, offset - 2)
    assert "without `source`" in skip_record(streams, offset)
    launcher.start(streams, MODES, "test")
    generate(streams, rate=20, seconds=3, seed=43)
    assert_equal_to_the_outbox(streams)


def test_a_driver_asked_for_a_mode_that_fails_says_why(change_capture: Settings) -> None:
    with pytest.raises(StreamFailedError, match="not built yet"):
        launcher.start(change_capture, [StreamMode.TRANSACTION], "test")
