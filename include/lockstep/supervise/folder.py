"""Where the files of a worker are: HOME/streams/<address>/. Knows nothing of their contents.

A worker is a stream's mode, the writer of a source's history, or the publisher. Those of the
pipeline that is worked for go by their mode alone, those of others by their address.
"""

from pathlib import Path

from lockstep.model.modes import HISTORY, PUBLISHER, StreamMode
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.names import SEPARATOR
from lockstep.pipeline.pipeline_names import names_of
from lockstep.settings import Settings

STREAMS = "streams"
OWN = (*map(str, StreamMode), HISTORY, PUBLISHER)
"""The workers of one pipeline, and of its source."""


def mode_folder(settings: Settings, mode: str) -> Path:
    """The folder of a worker; it need not exist.

    Raises PipelineError for a mode alone where no pipeline is chosen.
    """
    address = mode if SEPARATOR in mode else settings.names.worker(mode)
    return settings.home / STREAMS / address


def stream_of(settings: Settings, name: str) -> tuple[Settings, str]:
    """The settings of a stream's pipeline, and its mode. name: a mode alone, or an address.

    Raises PipelineError for an address without a mode of a stream.
    """
    if SEPARATOR not in name:
        return settings, name
    pipeline, mode = name.split(SEPARATOR, 1)
    if mode not in map(str, StreamMode):
        raise PipelineError(f"{name} is no stream's address, such as orders__outbox")
    return settings.of(pipeline), mode


def driver_folder(settings: Settings, source: str) -> Path:
    """The folder of a source's driver, with what concerns all its streams; it need not exist."""
    return settings.home / STREAMS / f"{source}.driver"


def folder_of_before(settings: Settings, mode: str) -> Path:
    """Where earlier versions had the files of a worker of their one pipeline."""
    return settings.home / STREAMS / mode


def name_in_project(settings: Settings, mode: str) -> str:
    """What a worker is called where all of a project's are listed.

    That is its mode where it is of the project's own choice, or of its source, else its address.
    """
    address = mode_folder(settings, mode).name
    try:
        chosen = names_of(settings.project)
    except PipelineError:
        return address
    return {chosen.worker(one): one for one in OWN}.get(address, address)


def workers(settings: Settings) -> list[str]:
    """Every worker that was ever started or stopped in this home, by name."""
    try:
        found = [one.name for one in (settings.home / STREAMS).iterdir() if one.is_dir()]
    except FileNotFoundError:
        return []
    own = _own_addresses(settings)
    return sorted(own.get(name, name) for name in found if SEPARATOR in name)


def _own_addresses(settings: Settings) -> dict[str, str]:
    """The mode of each address of the pipeline that is worked for; none where none is chosen."""
    try:
        return {settings.names.worker(mode): mode for mode in OWN}
    except PipelineError:
        return {}
