"""Watches change logs from a process of its own: when could each version be read?

It knows nothing of the writer: a version can be read as soon as its commit is in the table's log.
Nothing heavy is imported, for the process starts again.
"""

import multiprocessing
import time
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path

PAUSE_SECONDS = 0.002
"""Between two looks at all tables: a version is seen this much late at the most."""
END_SECONDS_MAX = 30.0

Seen = dict[str, dict[int, int]]
"""By table, then by version: nanoseconds since the epoch."""


class VersionWatch:
    """Stamps every new version from the start of the block on."""

    def __init__(self, folders: Mapping[str, Path]) -> None:
        """folders: local Delta tables, by any name; a table need not exist yet."""
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        logs = {name: folder / "_delta_log" for name, folder in folders.items()}
        self._process = context.Process(target=_watch, args=(logs, theirs), daemon=True)

    def __enter__(self) -> "VersionWatch":
        self._process.start()
        self._pipe.recv()  # it watches now
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.join()

    def seen(self) -> Seen:
        """End the watch and give what it saw: all that was committed before."""
        self._pipe.send("end")
        if not self._pipe.poll(END_SECONDS_MAX):
            raise RuntimeError("the process that watches the change logs does not answer")
        return self._pipe.recv()


def _watch(logs: Mapping[str, Path], pipe: Connection) -> None:
    after = {name: _newest(log) + 1 for name, log in logs.items()}
    seen: Seen = {name: {} for name in logs}
    pipe.send("watching")
    is_over = False
    while not is_over:
        is_over = pipe.poll()  # then one more look: what was committed before is seen
        for name, log in logs.items():
            while (log / f"{after[name]:020}.json").exists():
                seen[name][after[name]] = time.time_ns()
                after[name] += 1
        time.sleep(PAUSE_SECONDS)
    pipe.send(seen)


def _newest(log: Path) -> int:
    return max((int(path.stem) for path in log.glob("[0-9]*.json")), default=-1)
