"""A driver without Spark, for tests: takes leases, beats, obeys the desired state, SIGTERM and its
script.

The script is HOME/streams/<mode>/behaviour, one word, read at every turn: `fail` ends with an
error, `trip` with one that a restart may help, `die` without an error, `hang` beats no more,
`stall` makes no progress, `lag` is far behind, `wait` lacks changes of two transactions, `deaf`
does not stop, `starting` never comes to work. Each start appends its pid to HOME/starts. The
first driver of the source takes in the modes that are asked of it, unless HOME/refuses is there.
"""

import argparse
import os
import signal
import sys
import time
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lockstep.errors import exit_on_error
from lockstep.settings import Settings
from lockstep.supervise import lease, source_driver
from lockstep.supervise.desired import DesiredState, read_desired
from lockstep.supervise.errors import StreamBusyError
from lockstep.supervise.folder import mode_folder
from lockstep.supervise.heartbeat import (
    DriverState,
    Heartbeat,
    HeartbeatError,
    IncompleteTransaction,
    write_heartbeat,
)

TURN_SECONDS = 0.05
LONG_AGO = timedelta(hours=1)
INCOMPLETE = (
    IncompleteTransaction(7, 65.0, 3, 5, {"orders": 2}),
    IncompleteTransaction(8, 5.0, 1, None),
)
AT_OFFSET = "the record at offset 7 cannot be read"
ERRORS = {
    "fail": HeartbeatError("PoisonedRecordError", AT_OFFSET, restart_helps=False),
    "trip": HeartbeatError("StreamingQueryException", AT_OFFSET),
}


def say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


BEATEN: set[str] = set()
"""The modes that this process has beaten for."""


def behaviour(settings: Settings, mode: str) -> str:
    path = mode_folder(settings, mode) / "behaviour"
    return path.read_text().strip() if path.exists() else ""


def beat(mode: str, started: datetime, state: DriverState, script: str) -> Heartbeat:
    now = datetime.now(UTC)
    heartbeat = Heartbeat(mode, os.getpid(), started, now, state, rows_total=42, lag_seconds=0.2)
    heartbeat = replace(heartbeat, next_offset=100, end_offset=100, last_progress_at=now)
    if script == "stall":
        return replace(heartbeat, end_offset=200, last_progress_at=now - LONG_AGO)
    if script == "lag":
        return replace(heartbeat, lag_seconds=LONG_AGO.total_seconds())
    if script == "wait":
        return replace(heartbeat, incomplete=INCOMPLETE)
    if script in ERRORS:
        return replace(heartbeat, state=DriverState.FAILED, error=ERRORS[script])
    return heartbeat


def beat_as(settings: Settings, mode: str, started: datetime, script: str) -> None:
    """`starting` beats once, `reading` at every turn before it works."""
    if script == "starting" and mode in BEATEN:
        return
    BEATEN.add(mode)
    starting = script in ("starting", "reading")
    state = DriverState.STARTING if starting else DriverState.RUNNING
    write_heartbeat(settings, beat(mode, started, state, script))


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", action="append", required=True)
    modes = parser.parse_args().mode
    settings, started = Settings.load(), datetime.now(UTC)
    signals: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: signals.append(number))
    held = {mode: lease.acquire(settings, mode) for mode in modes}
    source, taken = None, {}
    with suppress(StreamBusyError):
        source = lease.acquire_source(settings, modes[0])
    with (settings.home / "starts").open("a") as starts:
        starts.write(f"{os.getpid()}\n")
    say(f"hosting {modes}")
    while held:
        if source is not None and not (settings.home / "refuses").exists():
            for mode, desired in source_driver.asked(settings, started).items():
                if taken.get(mode) != desired.changed_at:
                    taken[mode] = desired.changed_at
                    held[mode] = lease.acquire(settings, mode)
        for mode in list(held):
            script = behaviour(settings, mode)
            if script == "die":
                say("about to die")
                os.kill(os.getpid(), signal.SIGKILL)
            desired = read_desired(settings, mode)
            unwanted = signals or (desired is not None and desired.state is DesiredState.STOPPED)
            if unwanted and script != "deaf":
                write_heartbeat(settings, beat(mode, started, DriverState.STOPPED, script))
                held.pop(mode).release()
            elif script == "hang":
                say("beats no more")
            else:
                beat_as(settings, mode, started, script)
            if script in ERRORS:
                say("error: the record at offset 7 cannot be read")
                return 2
        time.sleep(TURN_SECONDS)
    return 0


if __name__ == "__main__":
    with exit_on_error():
        sys.exit(main())
