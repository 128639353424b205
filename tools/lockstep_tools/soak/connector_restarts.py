"""Restarts of change capture while transactions are open: is anything lost on the way?

Debezium can lose the earlier changes of such a transaction, and its END's count with them, so that
no stream can notice. Each round opens transactions, restarts Connect (SIGKILL), the connector
(gracefully, by REST) or PostgreSQL while they change rows and others commit, and commits them while
the service is away, or after it is back, as the first to do so or not. At the end the change topic
is compared with what the database says was committed.
"""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum

import httpx
from lockstep.capture import connector
from lockstep.capture.connectors import registered_connector
from lockstep.devstack import control
from lockstep.devstack.connect import Connect
from lockstep.devstack.postgres import Postgres
from lockstep.errors import ServiceError
from lockstep.host import process
from lockstep.settings import Settings
from lockstep.sources import change_topic
from pizzeria import names as pizzeria

from lockstep_tools.soak.captured import check_captured, read_captured
from lockstep_tools.soak.findings import Finding
from lockstep_tools.soak.open_transactions import OpenTransaction, Writer, Written, committed

REST_SECONDS_MAX = 60.0
BACK_SECONDS_MAX = 60.0
GONE_SECONDS_MAX = 20.0
ARRIVAL_SECONDS_MAX = 60.0
POLL_SECONDS = 0.1


class Restart(StrEnum):
    """What is restarted, and how."""

    CONNECT_KILLED = "connect killed"
    CONNECTOR = "connector restarted"
    POSTGRES_KILLED = "postgres killed"
    POSTGRES = "postgres restarted"


# Of 12 restarts. A restart of PostgreSQL ends its transactions, so that there is least to lose.
_WEIGHTS = {
    Restart.CONNECT_KILLED: 5,
    Restart.CONNECTOR: 5,
    Restart.POSTGRES_KILLED: 1,
    Restart.POSTGRES: 1,
}


@dataclass
class RestartReport:
    """What was done and what is wrong; `repeated` are changes that came more than once."""

    seed: int
    restarts: Counter[Restart] = field(default_factory=Counter)
    transactions: int = 0
    open_transactions: int = 0
    changes: int = 0
    repeated: int = 0
    seconds: float = 0.0
    findings: list[Finding] = field(default_factory=list)


def run_restarts(settings: Settings, restarts: int, seed: int) -> RestartReport:
    """Restart that many times, then compare. The stack is up with its connector, and is again."""
    rng = random.Random(seed)  # noqa: S311 - a workload, not a secret
    report, began = RestartReport(seed), time.monotonic()
    first_offset = change_topic.end_offset(settings)
    label = f"restarts-{seed}-{first_offset}"
    writer = Writer(settings, f"{label}-writer", random.Random(rng.random()))  # noqa: S311
    writer.start()
    opened: list[Written] = []
    try:
        for number in range(restarts):
            restart = rng.choices(list(_WEIGHTS), list(_WEIGHTS.values()))[0]
            opened += _round(settings, restart, writer, f"{label}-{number}", rng)
            report.restarts[restart] += 1
    finally:
        writer.stop()
    report.findings = _compare(settings, [*opened, *writer.written], first_offset, label, report)
    report.open_transactions = len(opened)
    report.seconds = time.monotonic() - began
    return report


def _round(
    settings: Settings, restart: Restart, writer: Writer, label: str, rng: random.Random
) -> list[Written]:
    """One restart with one to three transactions open across it."""
    opened = [OpenTransaction(settings, f"{label}-{n}", rng) for n in range(rng.randint(1, 3))]
    for one in opened:
        one.change(rng.randint(1, 4))
    time.sleep(rng.uniform(0, 0.5))
    is_quiet, commits_while_away = rng.random() < 0.5, rng.random() < 0.5  # noqa: PLR2004
    if is_quiet:  # then one of the open transactions is the first to commit afterwards
        writer.hold()
    with ThreadPoolExecutor(1) as background:
        restarting = background.submit(_RESTARTS[restart], settings)
        while not restarting.done():
            rng.choice(opened).change()
            time.sleep(rng.uniform(0, 0.3))
            if commits_while_away and rng.random() < 0.5:  # noqa: PLR2004
                break
        if not commits_while_away:
            restarting.result()
        for one in rng.sample(opened, len(opened)):
            one.change(rng.randint(0, 2))
            one.commit()
        writer.go_on()
        restarting.result()
    return [one.written for one in opened]


def kill(settings: Settings, service: str) -> None:
    """SIGKILL to the service's process; returns once all of it is gone. Raises ServiceError.

    A process counts as ended before its last thread has let go of its port.
    """
    record = process.read_record(settings.home, service)
    running = record.process() if record else None
    if running is None:
        raise ServiceError(f"{service} does not run, so it cannot be killed")
    running.kill()
    running.wait(GONE_SECONDS_MAX)


def _kill_connect(settings: Settings) -> None:
    kill(settings, Connect.name)
    control.up(settings, [Connect.name])


def _restart_connector(settings: Settings) -> None:
    url = f"{settings.connect_url}/connectors/{pizzeria.CONNECTOR}/restart?includeTasks=true"
    httpx.post(url, auth=settings.connect_auth, timeout=REST_SECONDS_MAX).raise_for_status()
    _wait_until_it_reads(settings)


def _kill_postgres(settings: Settings) -> None:
    kill(settings, Postgres.name)
    control.up(settings, [Postgres.name])
    _wait_until_it_reads(settings)


def _restart_postgres(settings: Settings) -> None:
    record = process.read_record(settings.home, Postgres.name)
    process.stop(record, Postgres.stop_signal, Postgres.stop_seconds_max)
    control.up(settings, [Postgres.name])
    _wait_until_it_reads(settings)


_RESTARTS = {
    Restart.CONNECT_KILLED: _kill_connect,
    Restart.CONNECTOR: _restart_connector,
    Restart.POSTGRES_KILLED: _kill_postgres,
    Restart.POSTGRES: _restart_postgres,
}


def _wait_until_it_reads(settings: Settings) -> None:
    """Until the connector is at work on its slot again; what failed for good is restarted."""
    deadline = time.monotonic() + BACK_SECONDS_MAX
    registered = registered_connector(settings)
    while (trouble := connector.trouble(settings, registered)) is not None:
        if time.monotonic() > deadline:
            raise ServiceError(f"not back after {BACK_SECONDS_MAX:.0f} s: {trouble}")
        if "FAILED" in trouble:
            control.up(settings, [Connect.name])
        time.sleep(POLL_SECONDS)


def _compare(
    settings: Settings, written: list[Written], first_offset: int, label: str, report: RestartReport
) -> list[Finding]:
    last = OpenTransaction(settings, f"{label}-last", random.Random(report.seed))  # noqa: S311
    last.change()
    last.commit()
    written = [*written, last.written]
    done = committed(settings, written)
    done_ids = {one.tx_id for one in done}
    found = read_captured(_until(settings, first_offset, last.written))
    report.transactions, report.changes = len(done), sum(len(one.changes) for one in done)
    report.repeated = sum(captured.repeated for captured in found.values())
    return check_captured(done, [one for one in written if one.tx_id not in done_ids], found)


def _until(settings: Settings, first_offset: int, last: Written) -> list[bytes | None]:
    """The topic's records from an offset on, up to the last transaction's END at the least."""
    end = f'"id":"{last.tx_id % 2**32}:'.encode()
    deadline = time.monotonic() + ARRIVAL_SECONDS_MAX
    values: list[bytes | None] = []
    while not any(value and b'"END"' in value and end in value for value in values):
        if time.monotonic() > deadline:
            raise ServiceError(f"{last.label} did not arrive in {ARRIVAL_SECONDS_MAX:.0f} s")
        stop = change_topic.end_offset(settings)
        for records in change_topic.read_again(settings, first_offset, stop):
            values += [value for _, value in records]
        first_offset = max(first_offset, stop)
        time.sleep(POLL_SECONDS)
    return values
