"""Runs the Ivy that pyspark bundles: downloads what ivy.xml names into a cache of its own.

Nothing outside the given folders is read or written (no ~/.ivy2, no ~/.m2), and no registry is
named: Ivy's default is Maven Central. Whether the files are the right ones is decided elsewhere.
"""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

from lockstep.jars.errors import JarsIncompleteError

RUN_SECONDS_MAX = 1800
"""Longest one resolution may take: 13 times the coldest one seen (143 s)."""
_CONNECT_MS = 30_000
_READ_MS = 60_000

OnLine = Callable[[str], None]


class DownloadError(JarsIncompleteError):
    """Ivy did not get everything; trying again may help."""


def retrieve(manifest: Path, cache: Path, into: Path, on_line: OnLine, held: int) -> None:
    """Resolve the manifest and copy every artifact to into/<configuration>/<file>.

    What the cache holds is not downloaded again, so an interrupted call is continued by the next.
    ``on_line`` gets each line that Ivy prints; Ivy inherits ``held``, the descriptor of a lock on
    these folders. Raises DownloadError with Ivy's own reasons.
    """
    shutil.rmtree(into, ignore_errors=True)
    pattern = f"{into}/[conf]/[artifact]-[revision](-[classifier]).[ext]"
    command = [
        *(_java(), "-Xmx512m", "-Djava.net.useSystemProxies=true"),
        f"-Dsun.net.client.defaultConnectTimeout={_CONNECT_MS}",
        f"-Dsun.net.client.defaultReadTimeout={_READ_MS}",
        f"-Divy.default.ivy.user.dir={cache / 'user'}",
        *("-jar", str(_bundled_ivy()), "-ivy", str(manifest), "-cache", str(cache)),
        *("-confs", "*", "-types", "jar", "bundle", "-retrieve", pattern),
    ]
    reasons: list[str] = []
    with _running(command, held) as process:
        for line in process.stdout:
            on_line(line.strip())
            if _is_reason(line):
                reasons.append(line.split(" url=")[0].strip(" :\t\n"))
    if process.returncode:
        raise DownloadError(
            f"downloading the JVM parts failed: {_shortened(reasons)}; check the network, Java's "
            "proxy (JAVA_TOOL_OPTIONS) and the disk's room; `make setup` goes on from here"
        )


@contextmanager
def _running(command: list[str], held: int) -> Iterator[subprocess.Popen]:
    """The process, its output as lines; it never outlives the block or RUN_SECONDS_MAX."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        pass_fds=(held,),
    )
    deadline = Timer(RUN_SECONDS_MAX, process.kill)
    deadline.daemon = True
    deadline.start()
    try:
        with process:
            yield process
    finally:
        deadline.cancel()
        process.kill()


def _is_reason(line: str) -> bool:
    """Ivy's report is long and repeats itself; these lines are the ones that say why."""
    marks = ("not found", "error", "Exception", "FAILED", "No space", "denied", "timed out")
    return any(mark in line for mark in marks) and ":::::" not in line


def _shortened(reasons: list[str]) -> str:
    """The first two different reasons, for the root of the matter comes first."""
    first, *rest = list(dict.fromkeys(reasons)) or ["Ivy gave no reason"]
    more = f" (and {len(rest) - 1} more)" if rest[1:] else ""
    return " | ".join([first, *rest[:1]]) + more


def _java() -> str:
    """JAVA_HOME's java, else the one on PATH; its version is checked by `make setup`."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        where = f"JAVA_HOME={home}" if home else "JAVA_HOME or on PATH"
        raise JarsIncompleteError(f"no java in {where}; install Java 17 or 21, then `make setup`")
    return java


def _bundled_ivy() -> Path:
    spec = importlib.util.find_spec("pyspark")
    folders = spec.submodule_search_locations if spec else None
    found = sorted(Path(folders[0], "jars").glob("ivy-*.jar")) if folders else []
    if not found:
        raise JarsIncompleteError(
            "pyspark, whose Ivy fetches the JVM parts, is not installed; run `make setup`"
        )
    return found[-1]
