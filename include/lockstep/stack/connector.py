"""The Debezium connector in Kafka Connect: its configuration, registered and kept running.

include/connectors/pizzeria.json is the configuration. In its values `${lockstep:NAME}` stands for
what differs between places, or is defined in contracts.py; NAME is one of `placeholders()`.

JSON has no comments, so the reasons are here:
- connector.class: ours (stack/java), Debezium's but for the place from which it goes
  on after a restart: the end of a whole transaction. Debezium's own places cost changes.
- offset.mismatch.strategy trust_slot: the slot decides where the server begins, as it does anyway;
  against lost changes no strategy helped.
- heartbeat.action.query: the log of Airflow's database is in the same stream and is kept until the
  slot moves, which takes a transaction in our database; it also moves the clock of the streams in
  quiet hours. Transactional, for other messages are outside of the commit order.
- slot.failover true marks the slot that the snapshot belongs to. A connector that finds no slot
  creates another one and goes on without a word; `withhold_mark` sees to it that such a one has no
  mark, by which the streams know it.
- retriable.restart.connector.wait.ms: after a restart of PostgreSQL the task comes back by itself.
- transforms.route: everything but the connector's own heartbeat goes into one topic, in order.
- lsn.flush.mode stays `connector`: the driver's own flushing could confirm what was not yet read.
"""

import json
import re
import time
from pathlib import Path

import httpx
from confluent_kafka.admin import AdminClient

from lockstep import contracts
from lockstep.contracts import KafkaUser, Role
from lockstep.errors import ConfigurationError, ServiceError
from lockstep.kafka_login import client
from lockstep.project import read_project_file
from lockstep.settings import Settings
from lockstep.stack import preflight

TEMPLATE = Path("include", "connectors", f"{contracts.CONNECTOR}.json")
"""Below the project's folder."""
PLACEHOLDER = re.compile(r"\$\{lockstep:([^}]*)\}")
REST_SECONDS_MAX = 30.0  # Connect answers a registration after validating it against the database
RUNNING_SECONDS_MAX = 60.0
UNASSIGNED_SECONDS_MAX = 15.0
"""A rebalance takes less. After a crash of Kafka a worker may write its states in the wrong order
and leave UNASSIGNED as the last of a connector that runs; started again, it writes them anew."""
RESTARTED_SECONDS_MAX = 10.0
"""Connect takes an order to restart what failed, and carries it out a moment later."""
SNAPSHOT_SECONDS_MAX = 30.0
DELIVERED_SECONDS_MAX = 30.0
POLL_SECONDS = 0.2
NOT_FOUND, CONFLICT = 404, 409
MARK = "slot.failover"
STOPPED = "STOPPED"
TRACE_CHARACTERS_MAX = 600


def placeholders(settings: Settings, password_reference: str) -> dict[str, str]:
    """What each `${lockstep:NAME}` of a connector's template stands for."""
    return {
        "postgres_host": settings.postgres_host,
        "postgres_port": str(settings.postgres_port),
        "cdc_password": password_reference,
        "cdc_role": Role.CDC,
        "database": contracts.DATABASE,
        "tables": ",".join(rf"public\.{table}" for table in contracts.CAPTURED_TABLES),
        "publication": contracts.PUBLICATION,
        "slot": contracts.REPLICATION_SLOT,
        "topic_prefix": contracts.TOPIC_PREFIX,
        "change_topic": contracts.CHANGE_TOPIC,
        "heartbeat_prefix": contracts.HEARTBEAT_MESSAGE_PREFIX,
    }


def configuration(settings: Settings, password_reference: str) -> dict[str, str]:
    """The connector's configuration; raises ConfigurationError for a placeholder nobody knows."""
    known = placeholders(settings, password_reference)

    def value(match: re.Match[str]) -> str:
        if match[1] not in known:
            raise ConfigurationError(
                f"{TEMPLATE} uses ${{lockstep:{match[1]}}}; there are: {', '.join(known)}"
            )
        return known[match[1]]

    template = json.loads(read_project_file(TEMPLATE))
    return {name: PLACEHOLDER.sub(value, text) for name, text in template.items()}


def ensure_running(settings: Settings, password_reference: str) -> None:
    """Register the connector, or restart what failed in it, and wait until its task runs.

    Guarantees: a running connector with this configuration is left alone; the change topic exists
    when this returns. Raises ServiceError when
    the database is not ready for it or it does not run in time.
    """
    wanted = configuration(settings, password_reference)
    registered = _get(settings, "config")
    if registered is not None:
        wanted[MARK] = registered.get(MARK, "false")
    has_failed = registered is not None and failure(settings) is not None
    if registered is None or registered != {**wanted, "name": contracts.CONNECTOR}:
        preflight.check(settings, first=registered is None)
        _send(settings, "PUT", "config", wanted)
    elif has_failed:
        restart_failed(settings)
    _wait_until_running(settings, RESTARTED_SECONDS_MAX if has_failed else 0.0)
    _wait_until_it_writes(settings)
    if _comes_to_read_its_slot(settings):
        _withhold_mark_soon(settings)
    else:
        preflight.check(settings, first=False)


def withhold_mark(settings: Settings) -> bool:
    """Tell the connector to mark no other slot, once the snapshot is in the change topic.

    Returns whether it is told; before the snapshot's end it is not, for that would begin anew.
    Called by `lockstep up`, and by every driver until it is done. Raises ServiceError.
    """
    registered = _get(settings, "config")
    if registered is None:
        return False
    if registered.get(MARK) != "true":
        return True
    if not _snapshot_is_delivered(settings):
        return False
    _send(settings, "PUT", "config", {**registered, MARK: "false"})
    _wait_until_running(settings)
    return True


def stop(settings: Settings, password_reference: str) -> None:
    """Make the connector stand still, and stay so through restarts of Connect.

    One that is not registered is registered so: offsets are deleted of registered ones only.
    Raises ServiceError when it does not come to stand still in time.
    """
    if _get(settings, "config") is None:
        body = {
            "name": contracts.CONNECTOR,
            "config": configuration(settings, password_reference),
            "initial_state": STOPPED,
        }
        _checked(_ask_connect(settings, "POST", "connectors", body))
    _send(settings, "PUT", "stop")
    deadline = time.monotonic() + RUNNING_SECONDS_MAX
    while (status := _get(settings, "status")) is None or (
        status["connector"]["state"] != STOPPED or status["tasks"]
    ):
        if time.monotonic() > deadline:
            raise ServiceError(
                f"the connector {contracts.CONNECTOR} does not stop: {_not_running(settings)}"
            )
        time.sleep(POLL_SECONDS)


def pause(settings: Settings) -> None:
    """Have the connector write nothing until `resume`; its task ends a moment after this returns.

    Raises ServiceError when Connect does not answer or has no such connector.
    """
    _send(settings, "PUT", "pause")


def resume(settings: Settings) -> None:
    """Have a connector go on that was paused or stopped. Returns and raises as `pause`."""
    _send(settings, "PUT", "resume")


def remove(settings: Settings) -> None:
    """Delete a connector that stands still, and how far it came. Raises ServiceError."""
    if _get(settings, "config") is None:
        return
    _send(settings, "DELETE", "offsets")
    _send(settings, "DELETE", "")


def failure(settings: Settings) -> str | None:
    """Why the connector or its task FAILED, in Connect's words; None when nothing of it has.

    Raises ServiceError when Connect does not answer.
    """
    return _not_running(settings) if "FAILED" in _states(settings) else None


def restart_failed(settings: Settings) -> None:
    """Start again what failed in the connector, without waiting until it runs.

    Raises ServiceError when Connect does not answer, or when the database is not ready for it.
    """
    preflight.check(settings, first=False)
    _send(settings, "POST", "restart?includeTasks=true&onlyFailed=true")


def trouble(settings: Settings) -> str | None:
    """None when the connector runs and reads its slot, else what Connect and the database say.

    Connect says RUNNING of a connector that fails to reach the database and tries again for ever.
    """
    try:
        if (not_running := _not_running(settings)) is not None:
            return not_running
        if preflight.slot_is_read(settings):
            return None
    except ServiceError as error:
        return str(error)
    return (
        f"connector {contracts.CONNECTOR} does not read its slot: it takes its snapshot, or fails "
        "and tries again (`lockstep logs connect`)"
    )


def _not_running(settings: Settings) -> str | None:
    """None when Connect says that the connector and its task run, else their states and why."""
    status = _get(settings, "status")
    if status is None:
        return f"connector {contracts.CONNECTOR} is not registered; `lockstep up` does it"
    parts = [status["connector"], *status["tasks"]]
    if all(part["state"] == "RUNNING" for part in parts) and status["tasks"]:
        return None
    states = ", ".join(part["state"] for part in parts)
    traces = "; ".join(part["trace"][:TRACE_CHARACTERS_MAX] for part in parts if "trace" in part)
    return f"connector {contracts.CONNECTOR} and its task: {states}. {traces}".strip()


def _states(settings: Settings) -> set[str]:
    status = _get(settings, "status")
    if status is None:
        return set()
    return {part["state"] for part in (status["connector"], *status["tasks"])}


def _wait_until_running(settings: Settings, failed_seconds_max: float = 0.0) -> None:
    """failed_seconds_max: for so long FAILED may still be what was before."""
    started = time.monotonic()
    restart_at = started + UNASSIGNED_SECONDS_MAX
    failed_at = started + failed_seconds_max
    deadline = started + RUNNING_SECONDS_MAX
    while (problem := _not_running(settings)) is not None:
        states = _states(settings)
        if "UNASSIGNED" in states and time.monotonic() > restart_at:
            _send(settings, "POST", "restart?includeTasks=true&onlyFailed=false")
            restart_at = deadline
        if STOPPED in states:
            raise ServiceError(f"{problem} A reset was broken off: `lockstep capture reset` again")
        has_failed = "FAILED" in states and time.monotonic() >= failed_at
        if has_failed or time.monotonic() > deadline:
            raise ServiceError(f"{problem}\n`lockstep logs connect` tells more")
        time.sleep(POLL_SECONDS)


def _wait_until_it_writes(settings: Settings) -> None:
    """The connector's first record, that its snapshot starts, makes the change topic."""
    kafka = AdminClient(client(settings, KafkaUser.ADMIN))
    deadline = time.monotonic() + RUNNING_SECONDS_MAX
    while contracts.CHANGE_TOPIC not in kafka.list_topics(timeout=REST_SECONDS_MAX).topics:
        if time.monotonic() > deadline:
            raise ServiceError(
                f"the connector {contracts.CONNECTOR} runs, but wrote nothing to "
                f"{contracts.CHANGE_TOPIC} in {RUNNING_SECONDS_MAX:.0f} s: `lockstep logs connect` "
                "tells more"
            )
        time.sleep(POLL_SECONDS)


def _comes_to_read_its_slot(settings: Settings) -> bool:
    """Wait for the end of a snapshot; a large one is not waited for and no failure."""
    deadline = time.monotonic() + SNAPSHOT_SECONDS_MAX
    while not preflight.slot_is_read(settings):
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _withhold_mark_soon(settings: Settings) -> None:
    """Once the snapshot is read: Connect keeps the offset of what it delivered a second later.

    Without it a slot lost right after `lockstep up`, before any driver runs, would go unseen.
    """
    deadline = time.monotonic() + DELIVERED_SECONDS_MAX
    while not withhold_mark(settings) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)


def _snapshot_is_delivered(settings: Settings) -> bool:
    """Whether the connector's offset, kept with what it delivered, is behind its snapshot's end."""
    known = (_get(settings, "offsets") or {}).get("offsets", [])
    return any(
        "snapshot" not in one["offset"] or one["offset"].get("snapshot_completed") is True
        for one in known
        if one["offset"]
    )


def _get(settings: Settings, what: str) -> dict | None:
    """What Connect says of the connector, or None when there is no such connector."""
    answer = _request(settings, "GET", what)
    return None if answer.status_code == NOT_FOUND else _checked(answer).json()


def _send(settings: Settings, method: str, what: str, body: dict | None = None) -> None:
    """Change the connector; a worker that is just rebalancing is asked again."""
    deadline = time.monotonic() + RUNNING_SECONDS_MAX
    while (answer := _request(settings, method, what, body)).status_code == CONFLICT:
        if time.monotonic() > deadline:
            break
        time.sleep(POLL_SECONDS)
    _checked(answer)


def _request(
    settings: Settings, method: str, what: str, body: dict | None = None
) -> httpx.Response:
    path = f"connectors/{contracts.CONNECTOR}/{what}".rstrip("/")
    return _ask_connect(settings, method, path, body)


def _ask_connect(
    settings: Settings, method: str, path: str, body: dict | None = None
) -> httpx.Response:
    url = f"{settings.connect_url}/{path}"
    try:
        return httpx.request(
            method, url, json=body, auth=settings.connect_auth, timeout=REST_SECONDS_MAX
        )
    except httpx.HTTPError as error:
        raise ServiceError(f"Kafka Connect does not answer at {url}: {error}") from error


def _checked(answer: httpx.Response) -> httpx.Response:
    if not answer.is_success:
        raise ServiceError(
            f"Kafka Connect refuses the connector {contracts.CONNECTOR} ({answer.status_code}): "
            f"{answer.text[:TRACE_CHARACTERS_MAX]}"
        )
    return answer
