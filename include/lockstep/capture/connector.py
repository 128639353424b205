"""A Debezium connector in Kafka Connect: registered, kept running, stopped, removed.

Which connectors there are, and how they are configured, is in connectors.py.
"""

import re
import time
from collections.abc import Mapping

import httpx
from confluent_kafka.admin import AdminClient

from lockstep.accounts import KafkaUser
from lockstep.capture import preflight
from lockstep.capture.connectors import Connector
from lockstep.errors import ServiceError
from lockstep.host.certificates import certificates
from lockstep.kafka_login import client
from lockstep.settings import Settings
from lockstep.waiting import wait_until

REST_SECONDS_MAX = 30.0  # Connect answers a registration after validating it against the database
RUNNING_SECONDS_MAX = 60.0
UNASSIGNED_SECONDS_MAX = 15.0
"""A rebalance takes less. After a crash of Kafka a worker may write its states in the wrong order
and leave UNASSIGNED as the last of a connector that runs; started again, it writes them again."""
RESTARTED_SECONDS_MAX = 10.0
"""Connect takes an order to restart what failed, and carries it out a moment later."""
SNAPSHOT_SECONDS_MAX = 30.0
DELIVERED_SECONDS_MAX = 30.0
POLL_SECONDS = 0.2
NOT_FOUND, CONFLICT = 404, 409
MARK = "slot.failover"
FIRST_TABLES = "snapshot.include.collection.list"
STOPPED = "STOPPED"
TRACE_CHARACTERS_MAX = 600
_UNESCAPED_COMMA = re.compile(r"(?<!\\),")


def ensure_running(settings: Settings, connector: Connector) -> None:
    """Register the connector, or restart what failed in it, and wait until its task runs.

    Guarantees: a running connector with this configuration is left alone; the change topic exists
    when this returns. Raises ServiceError when
    the database is not ready for it or it does not run in time.
    """
    wanted = connector.configuration()
    registered = _get(settings, connector, "config")
    if registered is not None:
        wanted[MARK] = registered.get(MARK, "false")
        wanted[FIRST_TABLES] = _first_tables(registered)
    has_failed = registered is not None and failure(settings, connector) is not None
    if registered is None or registered != {**wanted, "name": connector.name}:
        preflight.check(settings, connector, first=registered is None)
        _send(settings, connector, "PUT", "config", wanted)
    elif has_failed:
        restart_failed(settings, connector)
    _wait_until_running(settings, connector, RESTARTED_SECONDS_MAX if has_failed else 0.0)
    _wait_until_it_writes(settings, connector)
    if _comes_to_read_its_slot(connector):
        _clear_mark_soon(settings, connector)
    else:
        preflight.check(settings, connector, first=False)


def register(settings: Settings, connector: Connector, running_seconds_max: float) -> None:
    """Register a connector that is not there, and wait until it runs and its topic is there.

    running_seconds_max: its task makes a slot before it runs, which waits for transactions. Raises
    ServiceError when the database is not ready for it, or it does not run in time.
    """
    preflight.check(settings, connector, first=True)
    _send(settings, connector, "PUT", "config", connector.configuration())
    _wait_until_running(settings, connector, seconds_max=running_seconds_max)
    _wait_until_it_writes(settings, connector)


def clear_mark(settings: Settings, connector: Connector) -> bool:
    """Have the connector mark no other slot, once the snapshot is in the change topic.

    Returns whether it is so; before the snapshot's end it is not, for the snapshot would start
    again. Called by `lockstep up`, and by every driver until it is done. Raises ServiceError.
    """
    registered = _get(settings, connector, "config")
    if registered is None:
        return False
    if registered.get(MARK) != "true":
        return True
    if not _snapshot_is_delivered(settings, connector):
        return False
    _send(settings, connector, "PUT", "config", {**registered, MARK: "false"})
    _wait_until_running(settings, connector)
    return True


def first_tables(settings: Settings, connector: Connector) -> list[str] | None:
    """A regular expression for each table of the registered connector's snapshot; None without.

    Raises ServiceError when Connect does not answer.
    """
    registered = _get(settings, connector, "config")
    return None if registered is None else _UNESCAPED_COMMA.split(_first_tables(registered))


def _first_tables(registered: Mapping[str, str]) -> str:
    """Earlier versions registered which tables are captured, and these were the snapshot's."""
    return registered.get(FIRST_TABLES) or registered["table.include.list"]


def topic_is_there(settings: Settings, connector: Connector) -> bool:
    """Whether Kafka has the connector's change topic."""
    kafka = AdminClient(client(settings, KafkaUser.ADMIN))
    return connector.change_topic in kafka.list_topics(timeout=REST_SECONDS_MAX).topics


def stop(settings: Settings, connector: Connector) -> None:
    """Make the connector stand still, and stay so through restarts of Connect.

    One that is not registered is registered so: offsets are deleted of registered ones only.
    Raises ServiceError when it does not come to stand still in time.
    """
    if _get(settings, connector, "config") is None:
        body = {
            "name": connector.name,
            "config": connector.configuration(),
            "initial_state": STOPPED,
        }
        _checked(_ask_connect(settings, "POST", "connectors", body), connector)
    _send(settings, connector, "PUT", "stop")
    if not wait_until(lambda: _is_stopped(settings, connector), RUNNING_SECONDS_MAX, POLL_SECONDS):
        raise ServiceError(
            f"the connector {connector.name} does not stop: {_not_running(settings, connector)}"
        )


def pause(settings: Settings, connector: Connector) -> None:
    """Have the connector write nothing until `resume`; its task ends a moment after this returns.

    Raises ServiceError when Connect does not answer or has no such connector.
    """
    _send(settings, connector, "PUT", "pause")


def resume(settings: Settings, connector: Connector) -> None:
    """Have a connector go on that was paused or stopped. Returns and raises as `pause`."""
    _send(settings, connector, "PUT", "resume")


def remove(settings: Settings, connector: Connector) -> None:
    """Delete a connector that stands still, and how far it came. Raises ServiceError."""
    if _get(settings, connector, "config") is None:
        return
    _send(settings, connector, "DELETE", "offsets")
    _send(settings, connector, "DELETE", "")


def failure(settings: Settings, connector: Connector) -> str | None:
    """Why the connector or its task FAILED, in Connect's words; None when nothing of it has.

    Raises ServiceError when Connect does not answer.
    """
    return _not_running(settings, connector) if "FAILED" in _states(settings, connector) else None


def restart_failed(settings: Settings, connector: Connector) -> None:
    """Start again what failed in the connector, without waiting until it runs.

    Raises ServiceError when Connect does not answer, or when the database is not ready for it.
    """
    preflight.check(settings, connector, first=False)
    _send(settings, connector, "POST", "restart?includeTasks=true&onlyFailed=true")


def trouble(settings: Settings, connector: Connector) -> str | None:
    """None when the connector runs and reads its slot, else what Connect and the database say.

    Connect says RUNNING of a connector that fails to reach the database and tries again for ever.
    """
    try:
        if (not_running := _not_running(settings, connector)) is not None:
            return not_running
        if preflight.slot_is_read(connector):
            return None
    except ServiceError as error:
        return str(error)
    return (
        f"connector {connector.name} does not read its slot: it takes its snapshot, or fails "
        "and tries again (`lockstep logs connect`)"
    )


def _not_running(settings: Settings, connector: Connector) -> str | None:
    """None when Connect says that the connector and its task run, else their states and why."""
    status = _get(settings, connector, "status")
    if status is None:
        return (
            f"connector {connector.name} is not registered; {connector.remedies.register} does it"
        )
    parts = [status["connector"], *status["tasks"]]
    if all(part["state"] == "RUNNING" for part in parts) and status["tasks"]:
        return None
    states = ", ".join(part["state"] for part in parts)
    traces = "; ".join(part["trace"][:TRACE_CHARACTERS_MAX] for part in parts if "trace" in part)
    return f"connector {connector.name} and its task: {states}. {traces}".strip()


def _is_stopped(settings: Settings, connector: Connector) -> bool:
    status = _get(settings, connector, "status")
    return status is not None and status["connector"]["state"] == STOPPED and not status["tasks"]


def _states(settings: Settings, connector: Connector) -> set[str]:
    status = _get(settings, connector, "status")
    if status is None:
        return set()
    return {part["state"] for part in (status["connector"], *status["tasks"])}


def _wait_until_running(
    settings: Settings,
    connector: Connector,
    failed_seconds_max: float = 0.0,
    seconds_max: float = RUNNING_SECONDS_MAX,
) -> None:
    """failed_seconds_max: for so long FAILED may still be what was before."""
    started = time.monotonic()
    restart_at = started + UNASSIGNED_SECONDS_MAX
    failed_at = started + failed_seconds_max
    deadline = started + seconds_max
    while (problem := _not_running(settings, connector)) is not None:
        states = _states(settings, connector)
        if "UNASSIGNED" in states and time.monotonic() > restart_at:
            _send(settings, connector, "POST", "restart?includeTasks=true&onlyFailed=false")
            restart_at = deadline
        if STOPPED in states:
            raise ServiceError(
                f"{problem} A reset was broken off: {connector.remedies.begin_again} again"
            )
        has_failed = "FAILED" in states and time.monotonic() >= failed_at
        if has_failed or time.monotonic() > deadline:
            raise ServiceError(f"{problem}\n`lockstep logs connect` says more")
        time.sleep(POLL_SECONDS)


def _wait_until_it_writes(settings: Settings, connector: Connector) -> None:
    """The connector's first record, that its snapshot starts, makes the change topic."""
    if not wait_until(
        lambda: topic_is_there(settings, connector), RUNNING_SECONDS_MAX, POLL_SECONDS
    ):
        raise ServiceError(
            f"the connector {connector.name} runs, but wrote nothing to "
            f"{connector.change_topic} in {RUNNING_SECONDS_MAX:.0f} s: `lockstep logs connect` "
            "says more"
        )


def _comes_to_read_its_slot(connector: Connector) -> bool:
    """Wait for the end of a snapshot; a large one is not waited for and no failure."""
    return wait_until(lambda: preflight.slot_is_read(connector), SNAPSHOT_SECONDS_MAX, POLL_SECONDS)


def _clear_mark_soon(settings: Settings, connector: Connector) -> None:
    """Once the snapshot is read: Connect keeps the offset of what it delivered a second later.

    Without it a slot lost right after `lockstep up`, before any driver runs, would go unseen.
    """
    wait_until(lambda: clear_mark(settings, connector), DELIVERED_SECONDS_MAX, POLL_SECONDS)


def _snapshot_is_delivered(settings: Settings, connector: Connector) -> bool:
    """Whether the connector's offset, kept with what it delivered, is behind its snapshot's end."""
    known = (_get(settings, connector, "offsets") or {}).get("offsets", [])
    return any(
        "snapshot" not in one["offset"] or one["offset"].get("snapshot_completed") is True
        for one in known
        if one["offset"]
    )


def _get(settings: Settings, connector: Connector, what: str) -> dict | None:
    """What Connect says of the connector, or None when there is no such connector."""
    answer = _request(settings, connector, "GET", what)
    return None if answer.status_code == NOT_FOUND else _checked(answer, connector).json()


def _send(
    settings: Settings, connector: Connector, method: str, what: str, body: dict | None = None
) -> None:
    """Change the connector; a worker that is just rebalancing is asked again."""
    answer = wait_until(
        lambda: _request(settings, connector, method, what, body),
        RUNNING_SECONDS_MAX,
        POLL_SECONDS,
        is_done=lambda answer: answer.status_code != CONFLICT,
    )
    _checked(answer, connector)


def _request(
    settings: Settings, connector: Connector, method: str, what: str, body: dict | None = None
) -> httpx.Response:
    path = f"connectors/{connector.name}/{what}".rstrip("/")
    return _ask_connect(settings, method, path, body)


def _ask_connect(
    settings: Settings, method: str, path: str, body: dict | None = None
) -> httpx.Response:
    url = f"{settings.connect_url}/{path}"
    try:
        return httpx.request(
            method,
            url,
            json=body,
            auth=settings.connect_auth,
            timeout=REST_SECONDS_MAX,
            verify=certificates(),
        )
    except httpx.HTTPError as error:
        raise ServiceError(f"Kafka Connect does not answer at {url}: {error}") from error


def _checked(answer: httpx.Response, connector: Connector) -> httpx.Response:
    if not answer.is_success:
        url = answer.url
        raise ServiceError(
            f"Kafka Connect at {url.host}:{url.port} refuses the connector {connector.name} "
            f"({answer.status_code}): {answer.text[:TRACE_CHARACTERS_MAX]}"
        )
    return answer
