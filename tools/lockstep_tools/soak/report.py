"""The soak's report: one JSON file that says of each scenario how far it is and what it found.

It is also what a soak goes on from: a step that is noted here as done is not done again.
"""

import json
import subprocess
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from lockstep.host.files import make_private_folder, write_private
from lockstep.settings import Settings

from lockstep_tools.errors import SoakError
from lockstep_tools.soak.findings import Finding


@dataclass
class Progress:
    """One scenario under one seed: steps done of all; commits are those the steps were done at."""

    name: str
    seed: int
    total: int
    done: int = 0
    seconds: float = 0.0
    commits: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    figures: dict[str, object] = field(default_factory=dict)
    ended_at: str | None = None

    @property
    def state(self) -> str:
        if self.findings:
            return "failed"
        return "passed" if self.done >= self.total else "under way" if self.done else "waiting"


class Report:
    """The file HOME/soak/report.json, replaced whole with each step."""

    def __init__(self, settings: Settings) -> None:
        """Read what there is. Raises SoakError when it cannot be read."""
        self.path = report_path(settings)
        self.scenarios: list[Progress] = read(self.path)

    def of(self, name: str, seed: int, total: int) -> Progress:
        """The scenario's progress, begun if there is none; one of other length begins again."""
        for progress in self.scenarios:
            if (progress.name, progress.seed, progress.total) == (name, seed, total):
                return progress
        self.scenarios = [one for one in self.scenarios if (one.name, one.seed) != (name, seed)]
        self.scenarios.append(Progress(name, seed, total))
        return self.scenarios[-1]

    def note(self, progress: Progress, seconds: float, findings: list[Finding]) -> None:
        """One more step is done; written before this returns."""
        progress.done += 1
        progress.seconds = round(progress.seconds + seconds, 1)
        progress.findings += [f"step {progress.done}: {finding}" for finding in findings]
        if (commit := current_commit()) not in progress.commits:
            progress.commits.append(commit)
        if progress.done >= progress.total:
            progress.ended_at = datetime.now(UTC).isoformat(timespec="seconds")
        self.write()

    def write(self) -> None:
        make_private_folder(self.path.parent)
        written_at = datetime.now(UTC).isoformat(timespec="seconds")
        scenarios = [{"state": one.state, **asdict(one)} for one in self.scenarios]
        content = {"written_at": written_at, "scenarios": scenarios}
        write_private(self.path, json.dumps(content, indent=2))


def report_path(settings: Settings) -> Path:
    return settings.home / "soak" / "report.json"


def read(path: Path) -> list[Progress]:
    """The scenarios of a report; none when there is no file. Raises SoakError."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return [
            Progress(**{name: value for name, value in one.items() if name != "state"})
            for one in content["scenarios"]
        ]
    except FileNotFoundError:
        return []
    except (ValueError, KeyError, TypeError) as error:
        raise SoakError(
            f"the report {path} cannot be read ({error}); delete it to begin again"
        ) from error


def current_commit() -> str:
    """The commit of these tools' repository, with a + when files differ; empty without one."""
    described = subprocess.run(
        ["git", "describe", "--always", "--abbrev=10", "--dirty=+"],  # noqa: S607
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip()
