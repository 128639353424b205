"""`python -m lockstep.jars`: fill the jars' folder from the lock; `--lock` writes the lock."""

import sys
import time

from rich.console import Console

from lockstep.errors import LockstepError
from lockstep.jars.errors import JarsIncompleteError
from lockstep.jars.install import install, resolve
from lockstep.jars.lock import LOCK_FILE, write_lock
from lockstep.jars.progress import Progress
from lockstep.settings import Settings


def main(arguments: list[str]) -> int:
    """Returns the exit code; says in one line what was done or what is wrong."""
    console = Console(soft_wrap=True, highlight=False)
    started = time.monotonic()
    try:
        said = _run(arguments, Progress(console))
    except LockstepError as error:
        Console(stderr=True, soft_wrap=True).print(
            f"error: {error}", style="red", markup=False, highlight=False
        )
        return error.exit_code
    console.print(f"  jars      {said} ({time.monotonic() - started:.1f} s)", markup=False)
    return 0


def _run(arguments: list[str], progress: Progress) -> str:
    folder = Settings.load().jars_dir
    try:
        if arguments == ["--lock"]:
            jars = resolve(folder, progress)
            write_lock(jars)
            return f"locked {len(jars)} jars in {LOCK_FILE}"
        if arguments:
            raise JarsIncompleteError(f"unknown option {arguments[0]!r}; there is only --lock")
        placed = install(folder, progress)
        return f"all in {folder}, {f'{placed} put there, ' if placed else ''}hashes checked"
    except OSError as error:
        raise JarsIncompleteError(
            f"the jars' folder {folder} cannot be used: {error}; free it or set LOCKSTEP_JARS_DIR"
        ) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
