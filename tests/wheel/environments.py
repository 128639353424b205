"""Environments that hold the wheel and what it asks for, and nothing else of this project.

What it asks for is linked from this interpreter's packages, chosen by the wheel's own metadata, so
that a requirement which the wheel forgets is missing there.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, PathDistribution, distribution
from pathlib import Path

from packaging.requirements import Requirement

from tests.project import PROJECT_DIR

BUILT_FROM = ("pyproject.toml", "LICENSE", "include/lockstep")


def build_wheel(folder: Path) -> Path:
    """Build the library's wheel from a copy of its sources; returns the file."""
    sources = folder / "sources"
    for name in BUILT_FROM:
        source, target = PROJECT_DIR / name, sources / name
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, target)
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation"]
    _run([*command, "--wheel-dir", str(folder), str(sources)])
    (wheel,) = folder.glob("*.whl")
    return wheel


def make_environment(wheel: Path, folder: Path, extras: Iterable[str]) -> Path:
    """Install the wheel with these extras into a new environment; returns its interpreter."""
    _run([sys.executable, "-m", "venv", "--without-pip", str(folder)])
    packages = folder / "lib" / f"python3.{sys.version_info.minor}" / "site-packages"
    install = [sys.executable, "-m", "pip", "--python", str(folder / "bin" / "python"), "install"]
    _run([*install, "--no-deps", "--no-index", "--no-warn-script-location", str(wheel)])
    (metadata,) = packages.glob("lockstep-*.dist-info")
    for found in _required(PathDistribution(metadata), frozenset(extras)):
        _link(found, packages)
    return folder / "bin" / "python"


def _required(top: Distribution, extras: frozenset[str]) -> list[Distribution]:
    """All that the distribution asks for with these extras, and all that those ask for."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, str]] = set()
    waiting = [(top, extra) for extra in ("", *extras)]
    while waiting:
        asking, extra = waiting.pop()
        if (asking.name, extra) in seen:
            continue
        seen.add((asking.name, extra))
        for needed in _requirements(asking, extra):
            wanted = top if needed.name == top.name else distribution(needed.name)
            if wanted is not top:
                found[needed.name] = wanted
            waiting += [(wanted, other) for other in ("", *needed.extras)]
    return list(found.values())


def _requirements(asking: Distribution, extra: str) -> Iterator[Requirement]:
    for text in asking.requires or ():
        needed = Requirement(text)
        if needed.marker is None or needed.marker.evaluate({"extra": extra}):
            yield needed


def _link(package: Distribution, into: Path) -> None:
    """Each file of the package but its commands; what is compiled of it, too."""
    for file in package.files or ():
        source = Path(os.path.abspath(package.locate_file(file)))
        target = into.joinpath(*file.parts)
        if file.parts[0] == ".." or target.exists() or not source.exists():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(source)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{command} failed: {done.stdout}{done.stderr}")
