"""`lockstep stream` as people and programs see it, with drivers that need no Spark."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from lockstep.cdc.transactions import OffsetRange
from lockstep.cli import app
from lockstep.settings import Settings
from lockstep.sources.given_up import GivenUpRecords, GivenUpTransaction
from lockstep.streams import skip
from lockstep.supervise import launcher, lease
from lockstep.supervise.errors import StreamBusyError
from lockstep.supervise.heartbeat import DriverState, Heartbeat, HeartbeatError, write_heartbeat
from typer.testing import CliRunner, Result

from tests.supervise.conftest import behave, settings, starts

__all__ = ["behave", "settings", "starts"]

pytestmark = pytest.mark.usefixtures("settings")


@pytest.fixture
def lockstep(monkeypatch) -> Iterator[Callable[..., Result]]:
    monkeypatch.setenv("COLUMNS", "100")

    def run(*arguments: str) -> Result:
        result = CliRunner().invoke(app, arguments)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return run


def states(lockstep) -> dict[str, str]:
    shown = json.loads(lockstep("stream", "status", "--json").stdout)
    return {one["mode"]: one["health"] for one in shown}


def test_streams_are_started_shown_and_stopped(lockstep, starts) -> None:
    started = lockstep("stream", "start", "outbox", "temporal")
    assert f"outbox works (pid {starts()[0]})" in started.stdout
    shown = lockstep("stream", "status")
    assert shown.exit_code == 0
    assert all(len(line) <= 100 for line in shown.stdout.splitlines())
    [line] = [line for line in shown.stdout.splitlines() if line.startswith("outbox ")]
    for figure in ("ok", "42", "0.20 s", str(starts()[0])):
        assert figure in line
    assert lockstep("stream", "stop", "outbox", "message").stdout.splitlines() == [
        "outbox stopped",
        "message did not run",
    ]
    assert states(lockstep) == {
        "lookup": "stopped",
        "outbox": "stopped",
        "message": "stopped",
        "temporal": "ok",
        "transaction": "stopped",
    }


def test_all_is_one_driver_for_every_mode(lockstep, starts) -> None:
    lockstep("stream", "start", "all")
    assert set(states(lockstep).values()) == {"ok"}
    assert len(starts()) == 1
    with pytest.raises(StreamBusyError):
        lockstep("stream", "start", "temporal")
    assert len(starts()) == 1


def test_a_stream_that_should_run_and_does_not_is_exit_code_1(lockstep, behave) -> None:
    lockstep("stream", "start", "outbox")
    behave("outbox", "stall")
    deadline = time.monotonic() + 10
    while (shown := lockstep("stream", "status", "outbox")).exit_code == 0:
        assert time.monotonic() < deadline
    assert shown.exit_code == 1
    assert "outbox: has made no progress for 3600 s while 100 records wait" in shown.stdout
    assert lockstep("stream", "status", "temporal").exit_code == 0


def test_of_a_transaction_that_waits_it_is_said_what_is_missing(lockstep, behave) -> None:
    behave("outbox", "wait")
    lockstep("stream", "start", "outbox")
    lines = lockstep("stream", "status", "outbox").stdout.splitlines()
    assert all(len(line) <= 100 for line in lines)
    shown = " ".join(line.strip() for line in lines)
    assert (
        "outbox: transaction 7 is incomplete for 65 s: 3 of 5 changes are there "
        "(missing: 2 of orders); nothing after it is written"
    ) in shown
    assert "transaction 8 is incomplete for 5 s: its end is missing, 1 changes are there" in shown


def test_down_stops_the_streams_first_and_waits_for_their_drivers(lockstep, settings) -> None:
    lockstep("stream", "start", "all")
    driver = launcher.ProcessRecord(launcher.lease.holder(settings, "lookup"), 0.0)
    down = lockstep("down")
    assert "stream lookup" in down.stdout
    assert driver.process() is None
    assert set(states(lockstep).values()) == {"stopped"}
    assert "stopped by `lockstep down`" in lockstep("stream", "status").stdout


def test_an_unknown_stream_is_refused_with_those_there_are(lockstep) -> None:
    refused = lockstep("stream", "start", "table")
    assert refused.exit_code == 2
    assert "'temporal'" in refused.output


def test_status_of_the_stack_shows_the_streams_that_were_started(lockstep, starts) -> None:
    assert "stream" not in lockstep("status").stdout
    lockstep("stream", "start", "outbox")
    shown = lockstep("status")
    assert shown.exit_code == 0
    assert all(len(line) <= 100 for line in shown.stdout.splitlines())
    [line] = [line for line in shown.stdout.splitlines() if line.startswith("outbox ")]
    assert "ok" in line
    assert not any(line.startswith("temporal ") for line in shown.stdout.splitlines())
    *services, entry = json.loads(lockstep("status", "--json").stdout)
    assert set(services[0]) < set(entry)  # programs read services and streams alike
    assert (entry["service"], entry["state"], entry["pid"]) == (
        "stream-outbox",
        "running",
        starts()[0],
    )
    assert (entry["stream"]["health"], entry["stream"]["mode"]) == ("ok", "outbox")
    assert entry["uptime_seconds"] >= 0


def test_status_of_the_stack_ends_with_one_when_a_stream_is_dead(lockstep, starts) -> None:
    lockstep("stream", "start", "outbox")
    os.kill(starts()[0], signal.SIGKILL)
    deadline = time.monotonic() + 10
    while lease.holder(Settings.load(), "outbox") is not None:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    shown = lockstep("status")
    assert shown.exit_code == 1
    assert "outbox: its driver" in shown.stdout
    *_, entry = json.loads(lockstep("status", "--json").stdout)
    assert (entry["state"], entry["pid"], entry["uptime_seconds"]) == ("dead", None, None)
    assert "has ended without an error" in entry["problem"]
    lockstep("stream", "stop", "outbox")
    assert lockstep("status").exit_code == 0


@pytest.fixture
def skipped(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int | None]]:
    """The stretches that `stream skip` gives up; each has records of two groups."""
    stretches = []

    def skip_records(_: Settings, first: int, last: int | None) -> list[GivenUpRecords]:
        stretches.append((first, last))
        noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
        of_orders = GivenUpRecords(
            offsets=OffsetRange(first, first + 5),
            records=3,
            table="orders",
            hour=noon,
            is_order_hour=True,
            committed_first=noon,
            committed_last=noon,
            transactions=(GivenUpTransaction(701, 70, noon),),
            transaction_count=1,
            reason="the column was renamed",
        )
        of_clients = replace(of_orders, records=1, table="clients", is_order_hour=False)
        return [of_orders, of_clients]

    monkeypatch.setattr(skip, "skip_records", skip_records)
    return stretches


@pytest.mark.parametrize(
    ("arguments", "stretch"),
    [
        (["7"], (7, 7)),
        (["7-12"], (7, 12)),
        (["7", "--until", "12"], (7, 12)),
        (["7", "--until", "end"], (7, None)),
    ],
)
def test_skip_gives_up_a_stretch_and_says_what_it_touches(
    lockstep, skipped, arguments: list[str], stretch: tuple[int, int | None]
) -> None:
    shown = lockstep("stream", "skip", *arguments)
    assert (shown.exit_code, skipped) == (0, [stretch])
    windows = "windows open at their commits, 2026-01-01 12:00:00 to 12:00:00 UTC and later ones"
    at = "offsets 7 to 12 (transaction 701)"
    assert shown.stdout.splitlines() == [
        "4 records are given up (the column was renamed)",
        f"  3 records of orders at {at}, window 2026-01-01 12:00 UTC",
        f"  1 record of clients at {at}, {windows}",
        "streams that run pass them from now on, and parity names them",
    ]


@pytest.mark.parametrize(
    "arguments",
    [["x"], ["7-"], ["-7"], ["7-end"], ["7", "--until", "x"], ["7-12", "--until", "12"], ["7-8-9"]],
)
def test_skip_refuses_what_is_no_stretch(lockstep, skipped, arguments: list[str]) -> None:
    assert lockstep("stream", "skip", *arguments).exit_code == 2
    assert not skipped


def test_skip_names_the_streams_that_a_record_has_stopped(lockstep, skipped) -> None:
    started = datetime.now(UTC)
    for mode, name in (("outbox", "PoisonedRecordError"), ("lookup", "StreamError")):
        error = HeartbeatError(name, "why")
        beat = Heartbeat(mode, 1, started, started, DriverState.FAILED, error)
        write_heartbeat(Settings.load(), beat)
    assert "`lockstep stream start outbox`, or Clear" in lockstep("stream", "skip", "7").stdout
