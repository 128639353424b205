"""The project's folder: the team's SQL, DAGs, jobs and plugins, and by default its data.

The library's own files are in its package. Only paths below the project's folder are looked up
here, and nothing is kept: a process asks the environment and its working folder.
"""

import os
from pathlib import Path

from lockstep.errors import ConfigurationError

VARIABLE = "LOCKSTEP_PROJECT"
MARKER = Path("include", "sql")
"""What makes a folder a project: the SQL of its pipelines."""


def project_dir() -> Path:
    """The folder of LOCKSTEP_PROJECT, or the nearest one from the working folder upwards.

    Raises ConfigurationError when that folder has no include/sql, or there is none.
    """
    if chosen := os.environ.get(VARIABLE):
        folder = Path(chosen).expanduser().absolute()
        if not (folder / MARKER).is_dir():
            raise ConfigurationError(
                f"{VARIABLE} is {chosen}, where there is no folder {MARKER}: set it to the "
                "project's folder"
            )
        return folder
    here = Path.cwd()
    for folder in (here, *here.parents):
        if (folder / MARKER).is_dir():
            return folder
    raise ConfigurationError(
        f"{here} is in no project, for neither it nor a folder above has {MARKER}: change to the "
        f"project's folder, or set {VARIABLE} to it"
    )


def read_project_file(path: Path) -> str:
    """The text of a file by its path below the project's folder.

    Raises ConfigurationError when there is no such file, or no project.
    """
    file = project_dir() / path
    try:
        return file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigurationError(f"{file} is missing: the project's folder is incomplete") from None
