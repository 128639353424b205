"""Makes the jars' folder equal to the lock: verifies, downloads what is wrong, removes the rest.

Only this module writes to the folder. What a file was when its hash was last computed (size and
modification time) is kept in a stamp, so that a complete folder is recognised without a JVM and
without reading 160 MB again.
"""

import fcntl
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tenacity import Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential

from lockstep.jars import ivy
from lockstep.jars.errors import JarsIncompleteError
from lockstep.jars.lock import LOCK_FILE, PARTS, LockedJar, locked_as_found, read_lock, sha256_of
from lockstep.jars.progress import Progress

MANIFEST = Path(__file__).with_name("ivy.xml")
ATTEMPTS = 3
_CACHE, _RETRIEVED, _STAMP, _FOLDER_LOCK = "ivy-cache", "ivy-retrieved", "verified.json", ".lock"
_OTHER_SETUP_SECONDS_MAX = 1800


def install(folder: Path, progress: Progress, lock_file: Path = LOCK_FILE) -> int:
    """Leave exactly the locked jars in the folder; returns how many had to be put there.

    A file is put in place whole, after its hash was checked, so a call that dies at any moment
    leaves no wrong file, and the next call goes on from there. Returns 0 at once when all is
    well. Raises JarsIncompleteError, also when another process fills the folder for too long.
    """
    jars = read_lock(lock_file)
    if not _wrong(folder, jars) and not _extras(folder, jars) and (folder / _STAMP).exists():
        return 0
    with _alone_in(folder, progress) as held:
        wrong = _wrong(folder, jars)
        if wrong:
            _download(folder, jars, wrong, progress, held)
        for extra in _extras(folder, jars):
            extra.unlink()
        _write_stamp(folder, jars)
        return len(wrong)


def resolve(folder: Path, progress: Progress) -> list[LockedJar]:
    """What the manifest resolves to today, for a new lock; installs nothing."""
    with (
        _alone_in(folder, progress) as held,
        _retrieved(folder, set(), progress, held) as into,
    ):
        return [locked_as_found(part, f) for part in PARTS for f in (into / part).iterdir()]


def _download(
    folder: Path, jars: list[LockedJar], wrong: list[LockedJar], progress: Progress, held: int
) -> None:
    """Fetch and put in place what is wrong; tries again, for networks fail now and then."""
    again = Retrying(
        retry=retry_if_exception_type(ivy.DownloadError),
        stop=stop_after_attempt(ATTEMPTS),
        wait=wait_exponential(multiplier=1, max=10),
        before_sleep=lambda state: progress.say(
            f"attempt {state.attempt_number} of {ATTEMPTS} failed; trying again"
        ),
        reraise=True,
    )
    names = {jar.name for jar in jars}
    for attempt in again:
        with attempt, _retrieved(folder, names, progress, held):
            for jar in wrong:
                _put_in_place(folder, jar)


@contextmanager
def _retrieved(folder: Path, names: set[str], progress: Progress, held: int) -> Iterator[Path]:
    """What the manifest resolves to now, as part/file below the folder yielded; gone after it."""
    cache, into = folder / _CACHE, folder / _RETRIEVED
    try:
        with progress.of_downloads(cache, names) as on_line:
            ivy.retrieve(MANIFEST, cache, into, on_line, held)
        yield into
    finally:
        shutil.rmtree(into, ignore_errors=True)


def _put_in_place(folder: Path, jar: LockedJar) -> None:
    """Move a retrieved file to its part. A damaged one also leaves the cache, to come again."""
    retrieved = folder / _RETRIEVED / jar.path
    if not retrieved.exists():
        raise JarsIncompleteError(
            f"{jar.path} is in the lock, but jars/ivy.xml does not resolve to it any "
            "more; run `make jars-lock` if the manifest was changed on purpose"
        )
    found = sha256_of(retrieved)
    if found != jar.sha256:
        for damaged in (folder / _CACHE).glob(f"*/*/*/{jar.name}"):
            damaged.unlink()
        raise ivy.DownloadError(
            f"{jar.path} has SHA-256 {found} instead of {jar.sha256}: damaged, or not what was "
            "locked; nothing of it was used"
        )
    target = folder / jar.path
    target.parent.mkdir(exist_ok=True)
    os.replace(retrieved, target)


def _wrong(folder: Path, jars: list[LockedJar]) -> list[LockedJar]:
    """The jars that are missing or differ; hashes only files changed since the stamp."""
    stamp = _read_stamp(folder)
    return [jar for jar in jars if not _is_right(folder, jar, stamp)]


def _is_right(folder: Path, jar: LockedJar, stamp: dict) -> bool:
    if jar.problem_below(folder):
        return False
    file = folder / jar.path
    if stamp.get(jar.path) == [jar.sha256, file.stat().st_mtime_ns]:
        return True
    return sha256_of(file) == jar.sha256


def _extras(folder: Path, jars: list[LockedJar]) -> list[Path]:
    """Files of the parts' folders that the lock does not name."""
    locked = {jar.path for jar in jars}
    found = (file for part in PARTS for file in (folder / part).glob("*"))
    return [file for file in found if f"{file.parent.name}/{file.name}" not in locked]


def _read_stamp(folder: Path) -> dict:
    try:
        return json.loads((folder / _STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}  # never written or cut short: everything is hashed again


def _write_stamp(folder: Path, jars: list[LockedJar]) -> None:
    stamp = {jar.path: [jar.sha256, (folder / jar.path).stat().st_mtime_ns] for jar in jars}
    draft = folder / (_STAMP + ".new")
    draft.write_text(json.dumps(stamp), encoding="utf-8")
    os.replace(draft, folder / _STAMP)


@contextmanager
def _alone_in(folder: Path, progress: Progress) -> Iterator[int]:
    """Hold the folder's lock: two set-ups at once would pull files from under each other.

    Yields its descriptor, which Ivy inherits: should this process be killed and Ivy live on, the
    next set-up waits for it instead of writing to the same cache.
    """
    folder.mkdir(parents=True, exist_ok=True)
    deadline = time.monotonic() + _OTHER_SETUP_SECONDS_MAX
    with (folder / _FOLDER_LOCK).open("w") as handle:
        while not _locked(handle):
            progress.say(f"another set-up is filling {folder}: waiting for it")
            if time.monotonic() > deadline:
                raise JarsIncompleteError(
                    f"another set-up has been filling {folder} for {_OTHER_SETUP_SECONDS_MAX} s; "
                    "end it, then run `make setup` again"
                )
            time.sleep(5)
        yield handle.fileno()


def _locked(handle: IO) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
