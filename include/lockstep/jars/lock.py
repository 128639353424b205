"""The lock file jars.sha256: which jar belongs to which part, its size and hash.

One line to a jar: SHA-256, size in bytes, part/file. It is read here and written here
(`python -m lockstep.jars --lock`); nothing here downloads, copies or removes a jar.
"""

import hashlib
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from lockstep.jars.errors import JarsIncompleteError

PARTS = ("spark", "kafka", "connect")
LOCK_FILE = Path(__file__).with_name("jars.sha256")

_HEADER = """\
# The JVM parts that jars/ivy.xml resolves to: SHA-256, size in bytes, part/file.
# Written by `python -m lockstep.jars --lock`; checked by every `make setup`.
"""


@dataclass(frozen=True)
class LockedJar:
    """One jar that must be there, byte for byte."""

    part: str
    name: str
    size_bytes: int
    sha256: str

    @property
    def path(self) -> str:
        """Below the jars' folder: part/file."""
        return f"{self.part}/{self.name}"

    def problem_below(self, folder: Path) -> str | None:
        """Why this jar cannot be used from a folder, by presence and size alone; None if it can."""
        try:
            found = (folder / self.path).stat().st_size
        except OSError:
            return f"{self.path} (missing)"
        if found != self.size_bytes:
            return f"{self.path} ({found:,} bytes instead of {self.size_bytes:,})"
        return None


def read_lock(lock_file: Path = LOCK_FILE) -> list[LockedJar]:
    """The locked jars in the file's order. Raises JarsIncompleteError when it cannot be read."""
    try:
        lines = lock_file.read_text(encoding="ascii").splitlines()
    except OSError as error:
        raise JarsIncompleteError(
            f"the list of JVM parts {lock_file} cannot be read ({error.strerror}); "
            "install lockstep again"
        ) from error
    return [_parsed(line, lock_file) for line in lines if line and not line.startswith("#")]


def write_lock(jars: Iterable[LockedJar], lock_file: Path = LOCK_FILE) -> None:
    """Replace the lock file in one step, sorted by part, then by file name."""
    ordered = sorted(jars, key=lambda jar: (PARTS.index(jar.part), jar.name))
    lines = [f"{jar.sha256}  {jar.size_bytes:>9}  {jar.path}\n" for jar in ordered]
    draft = lock_file.with_name(lock_file.name + ".new")
    draft.write_text(_HEADER + "".join(lines), encoding="ascii")
    os.replace(draft, lock_file)


def locked_as_found(part: str, file: Path) -> LockedJar:
    """The lock's entry for a file as it is now."""
    return LockedJar(part, file.name, file.stat().st_size, sha256_of(file))


def sha256_of(file: Path) -> str:
    """The file's SHA-256, in hex."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _parsed(line: str, lock_file: Path) -> LockedJar:
    try:
        sha256, size, path = line.split()
        part, name = path.split("/")
        return LockedJar(part, name, int(size), sha256)
    except ValueError as error:
        raise JarsIncompleteError(
            f"{lock_file} is damaged: {line!r} is not 'sha256  bytes  part/file'; "
            "install lockstep again"
        ) from error
