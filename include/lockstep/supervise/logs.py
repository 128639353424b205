"""The log of a stream: that of its driver, to which a link in the stream's folder points."""

import secrets
from pathlib import Path

from lockstep.host.files import last_lines, make_private_folder
from lockstep.settings import Settings
from lockstep.supervise.folder import mode_folder

LINES_IN_ERROR = 20


def log_of(settings: Settings, mode: str) -> Path:
    """The log of the driver that last hosted the mode; it need not exist."""
    return mode_folder(settings, mode) / "driver.log"


def end_of_log(settings: Settings, mode: str) -> str:
    """The last lines that the mode's driver wrote."""
    return "\n".join(last_lines(log_of(settings, mode), LINES_IN_ERROR))


def point_to_log(settings: Settings, mode: str, log: Path) -> None:
    """Make this file the log of the mode from now on."""
    link = log_of(settings, mode)
    make_private_folder(link.parent)
    partial = link.with_name(f".{link.name}.{secrets.token_hex(4)}")
    partial.symlink_to(log)
    partial.replace(link)
