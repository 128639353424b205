"""Where the files of a worker are: HOME/streams/<name>/. Knows nothing of their contents.

A worker is a stream's mode, the writer of a source's history, or the publisher.
"""

from pathlib import Path

from lockstep.settings import Settings

STREAMS = "streams"


def mode_folder(settings: Settings, mode: str) -> Path:
    """The folder of a worker; it need not exist."""
    return settings.home / STREAMS / mode


def workers(settings: Settings) -> list[str]:
    """Every worker that was ever started or stopped in this home, by name."""
    try:
        return sorted(one.name for one in (settings.home / STREAMS).iterdir() if one.is_dir())
    except FileNotFoundError:
        return []
