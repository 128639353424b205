"""Random histories: every version of the published table is what the rules say, and no other."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lockstep.ledger import cutovers
from lockstep.model.modes import FEEDS, StreamMode
from lockstep.model.window import HOUR, Window
from lockstep.publish import from_stream
from lockstep.publish import switch as cutover
from lockstep.publish import table as published_table
from lockstep.publish.step import Step, step
from lockstep.settings import Settings

from tests.publish.shapes import PIZZERIA, Shape, samples
from tests.publish.shop import Expected, Shop, hour, published, version_of

pytestmark = pytest.mark.slow

MODES = (StreamMode.OUTBOX, StreamMode.TEMPORAL)
NOW = datetime(2026, 3, 2, tzinfo=UTC)
HOURS = 5
TURNS = 60


class KilledError(BaseException):
    """Stands for the end of the process."""


class History:
    """The shop, the table, what it should hold, and kills."""

    def __init__(self, settings: Settings, seed: int, shape: Shape) -> None:
        self.settings = settings
        self.shop = Shop(settings, seed, shape)
        self.plan = shape.plan
        self.expected = Expected(self.shop)
        self.random = self.shop.random
        self.hour = 0
        self.switches = self.kills = 0

    def turn(self) -> None:
        """Something happens."""
        acts = (self._orders, self._orders, self._run, self._streams, self.publish, self.switch)
        self.random.choice(acts)()

    def rows(self) -> dict[int, dict]:
        """The orders that consumers see."""
        return {number: row for number, (row, *_) in self.published().items()}

    def published(self, version: int | None = None) -> dict[int, tuple[dict, str, int]]:
        """The published table; fails when a row is there twice."""
        return published(self.settings, version, self.shop.shape)

    def settle(self) -> None:
        """What the publisher does after a switch."""
        table = published_table.open_or_create(self.settings, self.plan.result)
        cutover.settle(self.settings, table)

    def _step(self) -> Step:
        return step(self.settings, self.plan)

    def _orders(self) -> None:
        for _ in range(self.random.randrange(1, 5)):
            what = self.random.random()
            if what < 0.5 or not self.shop.now:
                self.shop.order(self.random.randrange(self.hour + 1))  # late ones, too
            elif what < 0.8:
                self.shop.change(self.random.choice(list(self.shop.now)))
            else:
                self.shop.cancel(self.random.choice(list(self.shop.now)))

    def _run(self) -> None:
        what = self.random.random()
        if what < 0.1 and self.shop.hourly:
            self.shop.correct_by_hand(self.random.choice(list(self.shop.hourly)))
        elif what < 0.6:
            self.shop.run(hour(self.hour))
            self.hour = min(self.hour + 1, HOURS)
        elif what < 0.8:
            self.shop.run(hour(self.random.randrange(self.hour + 1)))
        else:
            start = hour(self.random.randrange(self.hour + 1)).start + timedelta(minutes=20)
            self.shop.run(Window(start, start + HOUR))

    def _streams(self) -> None:
        for mode in MODES:
            self.shop.stream(mode, behind=self.random.randrange(4))

    def publish(self) -> None:
        """All that the feed has, in as many steps as it takes, some of them killed."""
        self._perhaps_killed(self._step)
        before = version_of(self.settings)
        while not self._step().is_all:
            assert version_of(self.settings) <= before + 1
            self.published()
            before = version_of(self.settings)
        self.expected.publish()
        assert self.published() == self.expected.rows
        assert not self._step().has_published

    def switch(self, feed: str | None = None) -> None:
        """To another feed, killed before its commit, or before the ledger's line."""
        if self.expected.feed == "batch":
            self.publish()
        for mode in MODES:
            self.shop.stream(mode)
        feed = feed or self.random.choice([one for one in FEEDS if one in ("batch", *MODES)])
        if feed == self.expected.feed:
            return
        before = version_of(self.settings)

        def act() -> None:
            cutover.switch(self.settings, self.plan, feed, 1, "the owner", NOW)

        self._perhaps_killed(act)
        assert version_of(self.settings) == before
        if self.random.random() < 0.3:
            self.settle()
            with self._killed_in(cutovers, "append"):
                act()
        else:
            act()
        self.switches += 1
        assert self.published(before) == self.expected.rows
        self.expected.switch(feed)
        assert self.published(before + 1) == self.expected.rows

    def _perhaps_killed(self, act: Callable[[], object]) -> None:
        before = version_of(self.settings)
        if self.random.random() < 0.5 or before < 0:
            return
        with self._killed_in(published_table, "_properties"):
            act()
        assert version_of(self.settings) == before

    def _killed_in(self, module: object, name: str):
        return _Killed(self, module, name)


class _Killed:
    """The block is killed at this function, if it gets there."""

    def __init__(self, history: History, module: object, name: str) -> None:
        self.history, self.module, self.name = history, module, name

    def __enter__(self) -> None:
        def die(*_: object) -> None:
            raise KilledError

        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(self.module, self.name, die)

    def __exit__(self, kind: type | None, *_: object) -> bool:
        self.patch.undo()
        self.history.kills += kind is KilledError
        return kind is KilledError


@pytest.mark.parametrize("seed", [0, 1, 2, 3, 11])
def test_every_version_is_what_its_feed_has(
    settings: Settings, proved: None, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    check_history(History(settings, seed, PIZZERIA), monkeypatch)


@pytest.mark.parametrize("has_time", [True, False])
@pytest.mark.parametrize("seed", [0, 2])
def test_so_it_is_of_a_pipeline_with_other_names_and_types_and_a_key_of_two_columns(
    tmp_path: Path,
    settings: Settings,
    proved: None,
    monkeypatch: pytest.MonkeyPatch,
    seed: int,
    has_time: bool,
) -> None:
    """Without a time the hourly table is published whole."""
    shape = samples(tmp_path / "project", has_time=has_time)
    check_history(History(settings, seed, shape), monkeypatch)


def check_history(history: History, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(from_stream, "CHANGES_MAX", 7)
    history._orders()
    history.shop.begin_capture(StreamMode.OUTBOX, with_snapshot=False)
    history.shop.begin_capture(StreamMode.TEMPORAL, with_snapshot=True)
    for _ in range(TURNS):
        history.turn()
    history.switch(StreamMode.TEMPORAL)
    history.publish()
    assert history.rows() == history.shop.now  # it knows every order: the database's own answer
    history.switch("batch")
    for number in range(HOURS + 1):
        history.shop.run(hour(number))
    history.publish()
    assert history.rows() == history.shop.now
    assert history.kills
    history.settle()
    assert len(cutovers.lines(history.settings)) == history.switches
    for version in range(version_of(history.settings) + 1):
        history.published(version)
