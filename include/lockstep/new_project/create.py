"""Makes the folder of a new project, in Astro's layout, whole or not at all."""

import json
import shutil
from importlib.metadata import Distribution, distribution
from pathlib import Path

from lockstep.errors import ConfigurationError
from lockstep.whole_folder import whole_folder

FILES = Path(__file__).with_name("files")
"""What every project has. Its DAGs, jobs and plugins are those of this repository."""
HIDDEN = {"gitignore": ".gitignore", "env.example": ".env.example"}
EMPTY = ("include/sources", "include/sql")
KEPT = ".gitkeep"
_PACKAGE = "lockstep"
_EXTRA = "devstack"


def create_project(folder: Path) -> None:
    """Write the project's files into a folder that is new or empty.

    Raises ConfigurationError when it is neither, or cannot be written; then nothing is left there.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigurationError(f"{folder} is not empty: name a new folder, or an empty one")
    with whole_folder(folder) as made:
        _write(made)


def _write(folder: Path) -> None:
    shutil.copytree(FILES, folder, ignore=shutil.ignore_patterns("__pycache__"))
    for name, hidden in HIDDEN.items():
        (folder / name).rename(folder / hidden)
    for name in EMPTY:
        (folder / name).mkdir(parents=True)
        (folder / name / KEPT).touch()
    installed = requirement(distribution(_PACKAGE))
    (folder / "requirements.txt").write_text(f"{installed}\n", encoding="utf-8")


def requirement(installed: Distribution) -> str:
    """The library as pip is to install it: by the file or folder it came from, or its version."""
    came_from = json.loads(installed.read_text("direct_url.json") or "{}")
    name = f"{_PACKAGE}[{_EXTRA}]"
    if url := came_from.get("url"):
        return f"{name} @ {url}"
    return f"{name}=={installed.version}"
