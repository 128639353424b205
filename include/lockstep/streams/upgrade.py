"""A home that an earlier version made becomes one of this version: `lockstep upgrade`.

Nothing else may run meanwhile, for an earlier version's drivers know the same leases. Every step
may be done again: after a kill at any point, upgrade again.
"""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack

from deltalake import DeltaTable

from lockstep.model.modes import HISTORY, PUBLISHER, StreamMode
from lockstep.pizzeria import HISTORY_OF_BEFORE, SOURCE_HISTORY
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import local_folder
from lockstep.streams import identity
from lockstep.supervise import lease


def upgrade(settings: Settings) -> list[str]:
    """What was done, a sentence each; nothing in a home of this version.

    Raises StreamBusyError while a stream, the history's writer or the publisher runs.
    """
    with ExitStack() as held:
        for worker in (*StreamMode, HISTORY, PUBLISHER):
            held.enter_context(lease.acquire(settings, worker))
        return list(_replace_history(settings))


def _replace_history(settings: Settings) -> Iterator[str]:
    """The dimensions' history becomes the source's, which its writer makes from the topic."""
    uri = settings.table_uri(HISTORY_OF_BEFORE)
    made = f"{SOURCE_HISTORY} takes its place: a stream that starts builds it from the topic"
    folder = local_folder(uri)
    if folder is None:
        if DeltaTable.is_deltatable(uri):
            yield f"delete {uri} in the object store; {made}"
        return
    leaving = folder.with_name(f".{folder.name}.removed")
    if folder.exists():
        _forget_writer(settings, uri)
        folder.rename(leaving)
        yield f"{uri} is removed; {made}"
    if leaving.exists():
        shutil.rmtree(leaving)


def _forget_writer(settings: Settings, uri: str) -> None:
    """What the query that wrote the table remembers, unless that is of another table already."""
    remembered = identity.read_remembered(settings, HISTORY)
    if remembered is None or remembered.generation == str(DeltaTable(uri).metadata().id):
        shutil.rmtree(identity.checkpoint_location(settings, HISTORY), ignore_errors=True)
        identity.identity_path(settings, HISTORY).unlink(missing_ok=True)
