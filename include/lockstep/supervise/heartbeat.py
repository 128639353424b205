"""What a stream's driver says of itself, about once a second: one file for each mode.

Only the holder of the mode's lease writes it. It outlives the driver, so that the last one says
how it ended. Whether what it says is good is decided in health.py.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Self

import msgspec

from lockstep.errors import StreamError
from lockstep.host.files import make_private_folder, write_private
from lockstep.settings import Settings
from lockstep.supervise.folder import mode_folder


class DriverState(StrEnum):
    """What the driver does with the mode; the last two are of its last heartbeat."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class HeartbeatError:
    """The class's name and the one-line message: of what ended the mode, or, while it runs, of what
    it goes on in spite of.

    restart_helps: whether a restart may repair it; so also where the file does not say it.
    """

    name: str
    message: str
    restart_helps: bool = True

    @classmethod
    def of(cls, failure: BaseException) -> Self:
        """An error that is not ours may be Spark's, of a service that was away: a restart may help.

        Ours says it itself (`LockstepError.restart_helps`), in whichever package it is defined.
        """
        helps = getattr(failure, "restart_helps", True)
        return cls(type(failure).__name__, str(failure), helps)


@dataclass(frozen=True)
class Percentiles:
    """Seconds."""

    p50: float
    p95: float
    p99: float


@dataclass(frozen=True)
class Latency:
    """Seconds from the database's commit to readable in Delta; each hop's share in `hops`."""

    p50: float
    p95: float
    p99: float
    hops: dict[str, Percentiles] = field(default_factory=dict)


@dataclass(frozen=True)
class IncompleteTransaction:
    """A transaction of which changes are missing; `missing` counts them by table."""

    tx_id: int
    age_seconds: float
    changes_seen: int
    changes_expected: int | None
    missing: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Heartbeat:
    """One beat. Times are UTC; what is not known yet is None."""

    mode: str
    pid: int
    driver_started_at: datetime
    beat_at: datetime
    state: DriverState
    error: HeartbeatError | None = None

    frontier: int | None = None
    """Commit LSN up to which every transaction is seen and written."""
    frontier_committed_at: datetime | None = None
    next_offset: int | None = None
    """Of the change topic: the first record not yet processed."""
    end_offset: int | None = None
    last_progress_at: datetime | None = None
    """When next_offset last moved, or the stream got on with a large transaction."""

    rows_total: int = 0
    """Since the driver started."""
    rows_per_second: float = 0.0
    lag_bytes: int | None = None
    """The database's present LSN less the frontier."""
    lag_seconds: float | None = None
    latency: Latency | None = None
    micro_batch_seconds: float | None = None
    state_rows: int | None = None
    """Changes held of transactions that are not whole, and cached versions of dimensions' rows."""
    driver_memory_bytes: int | None = None
    """Resident memory of the whole driver, its JVM included: the same for all modes it hosts."""
    stream_started_at: datetime | None = None
    """When the driver began with this stream, which may have joined it late."""
    incomplete: tuple[IncompleteTransaction, ...] = ()

    @property
    def started_at(self) -> datetime:
        """When the stream was started; where the file does not say it, with its driver."""
        return self.stream_started_at or self.driver_started_at


def heartbeat_path(settings: Settings, mode: str) -> Path:
    return mode_folder(settings, mode) / "heartbeat.json"


def to_json(heartbeat: Heartbeat) -> bytes:
    return msgspec.json.encode(heartbeat)


def from_json(content: bytes) -> Heartbeat:
    """Fields of a later version are passed over. Raises msgspec.DecodeError."""
    return msgspec.json.decode(content, type=Heartbeat)


def write_heartbeat(settings: Settings, heartbeat: Heartbeat) -> None:
    """Replace the mode's heartbeat, whole or not at all.

    Not forced to the disk: after a crash of the machine there is no driver that it could report on.
    """
    path = heartbeat_path(settings, heartbeat.mode)
    make_private_folder(path.parent)
    write_private(path, to_json(heartbeat).decode(), durable=False)


def read_heartbeat(settings: Settings, mode: str) -> Heartbeat | None:
    """The last heartbeat, of a driver that may have ended; None when there never was one.

    Raises StreamError for a damaged file.
    """
    path = heartbeat_path(settings, mode)
    try:
        content = path.read_bytes()
        return from_json(content) if content else None  # empty: what a crash of the machine left
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StreamError(
            f"{path} is damaged ({error}); a running driver replaces it within seconds, else "
            "delete it"
        ) from error
