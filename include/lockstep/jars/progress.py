"""Shows how far a download of the JVM parts has come, on a terminal and in a log alike.

Counts files in Ivy's cache, for Ivy itself says nothing about what is still to come.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console

_LOG_EVERY_SECONDS = 10
"""How often a log, which cannot be redrawn, gets a line."""


class Progress:
    """Says what happens on one console."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, text: str) -> None:
        """One line to the reader."""
        self._console.print(f"  jars      {text}", highlight=False, markup=False, soft_wrap=True)

    @contextmanager
    def of_downloads(self, cache: Path, names: set[str]) -> Iterator[Callable[[str], None]]:
        """Yields what is to be called with each line Ivy prints."""
        modules = 0
        shown = time.monotonic()

        with self._console.status("jars      starting Ivy", spinner="line") as status:

            def on_line(line: str) -> None:
                nonlocal modules, shown
                modules += line.startswith("found ")
                downloaded = line.startswith("[SUCCESSFUL")
                if not (downloaded or line.startswith(("found ", "downloading "))):
                    return
                now = time.monotonic()
                if self._console.is_terminal:
                    status.update(f"jars      {_summary(cache, names, modules)}")
                elif now - shown >= _LOG_EVERY_SECONDS:
                    shown = now
                    self.say(_summary(cache, names, modules))

            yield on_line


def _summary(cache: Path, names: set[str], modules: int) -> str:
    cached = {file.name: file for file in cache.glob("*/*/*/*.jar")}
    mib = sum(file.stat().st_size for file in cached.values()) / 1024**2
    of = f" of {len(names)}" if names else ""
    here = len(names & cached.keys()) if names else len(cached)
    return f"{modules} modules found, {here}{of} jars downloaded ({mib:.0f} MiB)"
