"""A pipeline under another name: its tables, what its streams keep, and its folder, moved.

What moves is what `pipeline rm` would remove. The project's folder goes last, so that what was
broken off is done again by the same call: what is at its new place already is passed over.
"""

import json
from pathlib import Path

from lockstep.errors import LakehouseError
from lockstep.maintain import removal
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.folder import read_pipeline
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.names import message_prefix, name_fault
from lockstep.pipeline.project_files import PIPELINE_FILE, PIPELINES, SOURCE_FILE, SOURCES
from lockstep.pipeline.result import RESULT_FILE
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import local_folder
from lockstep.supervise.folder import mode_folder


def moves(settings: Settings, old: str, new: str) -> dict[Path, Path]:
    """Each folder that moves, and where to; those that are there, in the order of `rename`.

    Raises PipelineError when it cannot be renamed so, LakehouseError when a place is taken, or for
    a lakehouse that is no local folder.
    """
    if fault := name_fault(new):
        raise PipelineError(f"the new name {fault}")
    if (settings.project / SOURCES / new / SOURCE_FILE).exists():
        raise PipelineError(f"{new} is the name of a source: choose another one")
    if not (settings.project / PIPELINES / old / PIPELINE_FILE).exists():
        raise PipelineError(f"there is no pipeline {old}")
    _require_own_prefix(settings, old)
    found = {
        there: wanted
        for there, wanted in zip(_places(settings, old), _places(settings, new), strict=True)
        if there.exists()
    }
    if taken := [str(wanted) for wanted in found.values() if wanted.exists()]:
        raise LakehouseError(f"{', '.join(taken)} is there already: move it away first")
    return found


def rename(settings: Settings, old: str, new: str) -> None:
    """Move all that is there.

    Raises StreamBusyError when a worker runs, WriterBusyError when another process writes one of
    the tables, both before anything is moved; otherwise as `moves` does.
    """
    found, what = moves(settings, old, new), removal.of_pipeline(settings, old)
    with removal.sole_right(settings, what):
        _write_lock_of(what.folder, new)
        for there, wanted in found.items():
            wanted.parent.mkdir(parents=True, exist_ok=True)
            there.rename(wanted)


def _places(settings: Settings, name: str) -> list[Path]:
    """Of the tables, the workers, and last the pipeline's folder."""
    what = removal.of_pipeline(settings, name)
    if local_folder(settings.lakehouse_uri) is None:
        raise LakehouseError(
            f"the lakehouse {settings.lakehouse_uri} is no local folder, where tables cannot be "
            "renamed: nothing was changed"
        )
    tables = [Path(settings.table_uri(table)) for table in what.tables]
    return [*tables, *(mode_folder(settings, worker) for worker in what.workers), what.folder]


def _require_own_prefix(settings: Settings, name: str) -> None:
    """The application's messages keep the prefix that they have."""
    manifest = read_pipeline(settings.project, name, {}).manifest
    if manifest and Mode.MESSAGE in manifest.modes and manifest.message_prefix is None:
        raise PipelineError(
            f"pipeline {name} has mode message, whose prefix is made of its name: write "
            f'message_prefix = "{message_prefix(name)}" into its {PIPELINE_FILE}, so that the '
            "messages of before and of the database's function stay its own"
        )


def _write_lock_of(folder: Path, name: str) -> None:
    """result.lock names its pipeline."""
    file = folder / RESULT_FILE
    if not file.exists():
        return
    try:
        content = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return  # damaged: `lockstep pipeline check` says so
    if isinstance(content, dict) and content.get("pipeline") != name:
        text = json.dumps(content | {"pipeline": name}, indent=2, ensure_ascii=False)
        file.write_text(f"{text}\n", encoding="utf-8")
