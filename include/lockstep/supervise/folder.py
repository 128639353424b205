"""Where the files of a hosted query are: HOME/streams/<mode>/. Knows nothing of their contents."""

from pathlib import Path

from lockstep.settings import Settings


def mode_folder(settings: Settings, mode: str) -> Path:
    """The folder of a mode, or of the history query; it need not exist."""
    return settings.home / "streams" / mode
