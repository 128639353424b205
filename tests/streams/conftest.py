"""Tables of a lakehouse of the test's own, and what database and Kafka would say."""

import time
from dataclasses import replace
from datetime import date
from pathlib import Path

import pytest
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep.sources.capture import CaptureFacts
from lockstep.streams import capture_watch, identity
from lockstep.streams.identity import Capture

from tests.streams.topics import open_log

MODE = StreamMode.OUTBOX
DAY = date(2026, 1, 1)
WHOLE = Capture(
    CaptureFacts(
        database_system=7,
        database_name="pizzeria",
        has_slot=True,
        wal_status="reserved",
        invalidation_reason=None,
        has_mark=True,
        restart_lsn=100,
        confirmed_lsn=100,
        current_lsn=120,
    ),
    topic_id="first",
)


class Services:
    """What the next look finds: a Capture, or the error that it raises."""

    def __init__(self) -> None:
        self.say: Capture | BaseException = WHOLE
        self.looks = 0
        self.incomplete: Exception | None = None

    def change(self, topic_id: str = "first", **facts: object) -> None:
        self.say = replace(WHOLE, topic_id=topic_id, facts=WHOLE.facts._replace(**facts))

    def capture(self, _settings: Settings, *, may_wait: bool = True) -> Capture:
        self.looks += 1
        if isinstance(self.say, BaseException):
            raise self.say
        return self.say

    def complete(self, _settings: Settings) -> None:
        if self.incomplete is not None:
            raise self.incomplete


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """What the monotonic clock shows: its one element."""
    shows = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: shows[0])
    return shows


@pytest.fixture
def services(monkeypatch: pytest.MonkeyPatch) -> Services:
    found = Services()
    for module in (identity, capture_watch):
        monkeypatch.setattr(module, "read_capture", found.capture)
    monkeypatch.setattr(identity, "require_complete_topic", found.complete)
    monkeypatch.setattr(capture_watch.connector, "clear_mark", lambda *_: True)
    return found


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    """Settings of a home and a lakehouse that do not exist yet."""
    return Settings(home=tmp_path / "home", lakehouse=str(tmp_path / "lakehouse"))


def write_orders(
    settings: Settings, orders: range, frontier: int, capture_id: int | None = None
) -> None:
    """Append one row for each order, with the frontier; what a stream at work does."""
    log = open_log(settings, MODE, capture_id)
    rows = log.schema.empty_table()
    if orders:
        values = {"order_id": 0, "op": "c", "commit_lsn": frontier, "commit_date": DAY}
        found = [{**values, "order_id": order} for order in orders]
        rows = rows.from_pylist(found, schema=log.schema)
    log.append(rows, frontier, frontier)
