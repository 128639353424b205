"""`lockstep bench page`: the page Parity over a year of hours and many pipelines.

Next to it, by turns, what the ledgers say when each line is a Python object, as a few lines are
judged. Ledgers and folders are made up, below HOME/bench-page.
"""

import shutil
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from deltalake import write_deltalake
from lockstep.ledger import book
from lockstep.ledger.entries import LEDGER_COLUMNS, Comparison
from lockstep.ledger.reached import verified
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict
from lockstep.model.window import HOUR, Window
from lockstep.parity_pages import view
from lockstep.parity_pages.pipelines import pipelines
from lockstep.parity_pages.render import render
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.names import ledger_path
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.project_files import PIPELINES, SOURCES
from lockstep.settings import Settings
from pizzeria.names import MANIFEST, SOURCE

OVERVIEW, PAGE, BY_LINE = "all pipelines", "one pipeline", "all ledgers, line by line"
START = datetime(2024, 1, 1, tzinfo=UTC)


@dataclass
class Measured:
    """lines: of each ledger. seconds: of each round, by what was done."""

    lines: int
    seconds: dict[str, list[float]] = field(default_factory=dict)

    def median(self, what: str) -> float:
        return statistics.median(self.seconds[what])


def measure(settings: Settings, count: int, hours: int, rounds: int) -> Measured:
    """Make so many pipelines with ledgers of so many hours, and show them."""
    own = _made(settings, [f"pipeline_{number}" for number in range(count)], hours)
    measured = Measured(hours * len(StreamMode))
    for _ in range(rounds):
        for what, show in _SHOWN.items():
            began = time.perf_counter()
            show(own)
            measured.seconds.setdefault(what, []).append(time.perf_counter() - began)
    shutil.rmtree(own.home)
    return measured


def _made(settings: Settings, names: list[str], hours: int) -> Settings:
    home = settings.home / "bench-page"
    shutil.rmtree(home, ignore_errors=True)
    project = home / "project"
    shutil.copytree(settings.project / SOURCES / SOURCE, project / SOURCES / SOURCE)
    for name in names:
        shutil.copytree(settings.project / PIPELINES / MANIFEST, project / PIPELINES / name)
    own = settings.model_copy(update={"home": home, "lakehouse": "", "project": project})
    version = plan_named(project, names[0]).version
    lines = [_line(START + hour * HOUR, mode, version) for hour in range(hours) for mode in _MODES]
    table = pa.Table.from_pylist(list(map(book.line_row, lines)), arrow_schema(LEDGER_COLUMNS))
    for name in names:
        write_deltalake(own.table_uri(ledger_path(name)), table)
    return own.of(names[0])


def _line(start: datetime, mode: StreamMode, version: str) -> Comparison:
    return Comparison(
        check_id=f"{mode} {start.isoformat()}",
        window=Window(start, start + HOUR),
        mode=mode,
        verdict=Verdict.PASS,
        reason="",
        run_id="a run",
        cut_snapshot="9:9:",
        cut_lsn=1,
        batch_version=1,
        stream_version=1,
        stream_frontier=1,
        orders_compared=1000,
        definition="",
        checked_at=start + HOUR + timedelta(minutes=6),
        seconds=1.0,
        pipeline_version=version,
    )


def _overview(settings: Settings) -> None:
    render("pipelines.html", pipelines(settings, str) | {"refresh_seconds": 0})


def _page(settings: Settings) -> None:
    view.overview(settings, plan_named(settings.project, settings.names.pipeline), lambda *_: "")


def _by_line(settings: Settings) -> None:
    for folder in sorted((settings.project / PIPELINES).iterdir()):
        judged = book.judged(settings.of(folder.name))
        for mode in _MODES:
            verified([one for one in judged if one.mode is mode], "")


_MODES = tuple(StreamMode)
_SHOWN: dict[str, Callable[[Settings], None]] = {
    OVERVIEW: _overview,
    PAGE: _page,
    BY_LINE: _by_line,
}
