"""What a stream shall do: one small file for each mode, written by what starts or stops it.

It holds what is desired. What is observed (the lease, the heartbeat) is never written here.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import msgspec

from lockstep.errors import StreamError
from lockstep.host.files import make_private_folder, write_private
from lockstep.settings import Settings
from lockstep.supervise.folder import mode_folder


class DesiredState(StrEnum):
    """Whether the stream shall run."""

    RUNNING = "running"
    STOPPED = "stopped"


@dataclass(frozen=True)
class Desired:
    """`reason` says who asked for it, for people; `restarts` counts those of the supervision.

    joins: the pid of the driver that is asked to host the stream; None for a driver of its own.
    """

    state: DesiredState
    reason: str
    changed_at: datetime
    restarts: int = 0
    joins: int | None = None


def desired_path(settings: Settings, mode: str) -> Path:
    return mode_folder(settings, mode) / "desired.json"


def read_desired(settings: Settings, mode: str) -> Desired | None:
    """The desired state; None when none was ever written. Raises StreamError if damaged."""
    path = desired_path(settings, mode)
    try:
        return msgspec.json.decode(path.read_bytes(), type=Desired)
    except FileNotFoundError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise StreamError(
            f"{path} is damaged ({error}); delete it: a stream that runs goes on, and `lockstep "
            f"stream start {mode}` or `stop {mode}` writes the file again"
        ) from error


def is_desired(settings: Settings, mode: str) -> bool:
    """Whether the mode is to run. Raises StreamError for a damaged file."""
    desired = read_desired(settings, mode)
    return desired is not None and desired.state is DesiredState.RUNNING


def write_desired(
    settings: Settings,
    mode: str,
    state: DesiredState,
    reason: str,
    restarts: int = 0,
    joins: int | None = None,
) -> Desired:
    """Replace the desired state, whole or not at all; returns what was written."""
    desired = Desired(state, reason, datetime.now(UTC), restarts, joins)
    path = desired_path(settings, mode)
    make_private_folder(path.parent)
    write_private(path, msgspec.json.encode(desired).decode())
    return desired


def withdraw_desired(settings: Settings, mode: str, desired_by: str, reason: str) -> bool:
    """Set the desired state to stopped, if it is running for the reason `desired_by`.

    Returns whether it was; a state with another reason is left alone.
    """
    desired = read_desired(settings, mode)
    if desired is None or desired.state is not DesiredState.RUNNING or desired.reason != desired_by:
        return False
    write_desired(settings, mode, DesiredState.STOPPED, reason)
    return True
