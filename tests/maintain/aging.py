"""Makes files look as if they had been written long ago."""

import json
import os
from pathlib import Path

DAY_SECONDS = 86_400


def age(folder: Path, days: float) -> None:
    """Move everything below the folder so many days into the past, a Delta table's log as well."""
    for path in folder.rglob("*.json"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for removed in (line["remove"] for line in lines if "remove" in line):
            removed["deletionTimestamp"] -= round(days * DAY_SECONDS * 1000)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    for path in folder.rglob("*"):
        then = path.stat().st_mtime - days * DAY_SECONDS
        os.utime(path, (then, then), follow_symlinks=False)
