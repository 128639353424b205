"""What a check of one window found: values and how they read. Never evaluates anything."""

import io
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from lockstep.model.verdict import CheckStatus
from lockstep.model.window import Window

HOURLY = "hourly"
"""The subject of a check of the hourly table in earlier versions, and of a stream's its mode."""

TEXT_WIDTH = 100
"""Columns of the report in a task's log."""

_STYLES = {CheckStatus.PASS: "green", CheckStatus.WARN: "yellow", CheckStatus.FAIL: "bold red"}
_WORST_LAST = (CheckStatus.PASS, CheckStatus.WARN, CheckStatus.FAIL)


@dataclass(frozen=True)
class CheckResult:
    """One expectation and what was observed of it."""

    name: str
    status: CheckStatus
    severity: CheckStatus
    """What the status is when the expectation is not met: WARN or FAIL."""
    observed: str
    expected: str
    examples: tuple[str, ...] = ()
    """Some of the rows (or columns) that do not meet it."""
    suite: str = ""

    @property
    def message(self) -> str:
        """On one line: "client known: all but 1 of 5 orders (7); expected known in every order"."""
        return f"{self.name}: {self.found}; expected {self.expected}"

    @property
    def found(self) -> str:
        """What was observed, with the examples."""
        return f"{self.observed} ({', '.join(self.examples)})" if self.examples else self.observed


def worst(results: tuple[CheckResult, ...]) -> CheckStatus:
    """The status of a whole check: its worst; PASS when there is nothing to judge."""
    return max((result.status for result in results), key=_WORST_LAST.index, default=_WORST_LAST[0])


@dataclass(frozen=True)
class QualityReport:
    """One window's checks. When the schema differs, no row was read and only that is reported."""

    window: Window
    run_id: str
    rows: int
    checks: tuple[CheckResult, ...]
    data_docs: Path
    """Folder of all pages; its index.html lists the checked windows."""
    data_docs_page: str
    """The window's own page, relative to data_docs and quoted for a URL."""
    seconds: float
    subject: str = HOURLY
    """What the hourly table is called in SQL, or the change log that was checked with parity."""
    noun: str = "rows"
    check_id: str = ""
    """Of a mode: the comparison's line in the ledger."""
    suite_pages: Mapping[str, str] = field(default_factory=dict)
    """Each suite's own page, like data_docs_page."""

    @property
    def status(self) -> CheckStatus:
        return worst(self.checks)

    @property
    def warnings(self) -> list[str]:
        return self._messages(CheckStatus.WARN)

    @property
    def failures(self) -> list[str]:
        return self._messages(CheckStatus.FAIL)

    def failures_of(self, suites: Collection[str]) -> list[str]:
        """Of these suites only."""
        failed = (check for check in self.checks if check.status is CheckStatus.FAIL)
        return [check.message for check in failed if check.suite in suites]

    def _messages(self, status: CheckStatus) -> list[str]:
        return [check.message for check in self.checks if check.status is status]

    @property
    def about(self) -> str:
        """What was checked, in a phrase."""
        rows = f"{self.rows:,} {self.noun}"
        if not self.check_id:
            return f"{rows} of {self.subject}, written by run {self.run_id}"
        return f"{rows} of {self.subject}, compared with run {self.run_id}"

    @property
    def by_suite(self) -> list[tuple[str, Sequence[CheckResult]]]:
        """The checks of each suite, in their order."""
        return [(suite, list(of)) for suite, of in groupby(self.checks, lambda one: one.suite)]

    def summary(self) -> str:
        """One line: how many checks, and each that did not pass, failures first."""
        total = f"{len(self.checks)} checks of {self.rows:,} {self.noun}"
        messages = self.failures + self.warnings
        return f"{total}: {self.status}" + (f": {'; '.join(messages)}" if messages else "")

    def table(self) -> str:
        """The checks as text without colours, at the most 100 columns wide."""
        console = Console(file=io.StringIO(), width=TEXT_WIDTH, color_system=None)
        console.print(self)
        return "\n".join(line.rstrip() for line in console.file.getvalue().splitlines())

    def __rich__(self) -> Table:
        table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for heading in ("check", "status", "observed", "expected"):
            table.add_column(heading, overflow="fold", no_wrap=heading in ("check", "status"))
        for check in self.checks:
            table.add_row(
                check.name,
                Text(check.status, style=_STYLES[check.status]),
                Text(check.found),
                Text(check.expected),
            )
        return table
