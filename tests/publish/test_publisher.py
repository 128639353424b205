"""The publisher as a process: it follows the feed, survives a kill, and obeys the desired state."""

import json
import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from lockstep.cli import app
from lockstep.model.modes import PUBLISHER, StreamMode
from lockstep.pipeline import plan, project
from lockstep.pipeline.folder import QUERY_FILE
from lockstep.pipeline.project_files import PIPELINES, SOURCES
from lockstep.publish import conditions, publisher
from lockstep.publish import switch as cutover
from lockstep.publish.publisher import Publisher
from lockstep.settings import Settings
from lockstep.sinks import maintenance
from lockstep.supervise import launcher, lease
from lockstep.supervise.errors import StreamBusyError
from lockstep.supervise.health import Health
from lockstep.supervise.heartbeat import DriverState, Heartbeat, read_heartbeat
from lockstep.supervise.observation import observe, observe_started
from pizzeria.names import change_log_table
from typer.testing import CliRunner

from tests.project import PROJECT_DIR
from tests.publish.shop import DAY, PLAN, Shop, hour, published, version_of

SECONDS_MAX = 60.0
MAINTAIN_COMMITS = 5


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Settings]:
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("LOCKSTEP_HOME", str(home))
    monkeypatch.setenv("COLUMNS", "200")
    settings = Settings.load()
    yield settings
    if (pid := lease.holder(settings, PUBLISHER)) not in (None, os.getpid()):
        os.kill(pid, signal.SIGKILL)


@pytest.fixture
def shop(settings: Settings) -> Shop:
    shop = Shop(settings)
    for number in range(2):
        shop.order(number)
        shop.run(hour(number))
    shop.stream(StreamMode.OUTBOX)
    return shop


def wait_until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def lockstep(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["publish", *arguments])
    assert result.exit_code == 0, result.output
    return result.stdout


def let_outbox_feed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as proved:
        proved.setattr(conditions, "require_verified", lambda *_: None)
        proved.setattr(conditions, "require_running", lambda *_: None)
        cutover.switch(settings, PLAN, "outbox", 1, "a test", DAY)


def test_it_follows_the_feed_through_kill_and_switch(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "the publisher works" in lockstep("start")
    wait_until(lambda: version_of(settings) > 0)
    assert set(published(settings)) == {1, 2}
    assert observe(settings, PUBLISHER).finding.health is Health.OK
    assert [one.mode for one in observe_started(settings)] == [PUBLISHER]
    with pytest.raises(StreamBusyError, match="`lockstep publish stop` stops it"):
        launcher.start(settings, [PUBLISHER], "a test")

    os.kill(lease.holder(settings, PUBLISHER), signal.SIGKILL)
    wait_until(lambda: lease.holder(settings, PUBLISHER) is None)
    shop.order(1)
    shop.run(hour(1))
    shop.stream(StreamMode.OUTBOX)
    lockstep("start")
    wait_until(lambda: set(published(settings)) == {1, 2, 3})

    let_outbox_feed(settings, monkeypatch)
    shop.cancel(1)
    shop.stream(StreamMode.OUTBOX)
    wait_until(lambda: set(published(settings)) == {2, 3})
    shown = lockstep("status")
    assert f"fed by outbox, published up to LSN {shop.lsn}" in shown
    assert "the publisher: ok" in shown
    assert "batch → outbox" in shown

    [stopped] = launcher.stop_all(settings, "a test")
    assert (stopped.mode, stopped.killed) == (PUBLISHER, False)
    assert observe(settings, PUBLISHER).finding.health is Health.STOPPED
    assert "did not run" in lockstep("stop")


def test_what_ends_it_is_in_its_heartbeat(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_outbox_feed(settings, monkeypatch)
    shutil.rmtree(settings.table_uri(change_log_table(StreamMode.OUTBOX)))
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    assert Publisher(settings).run() == 2
    found = observe(settings, PUBLISHER)
    assert found.holder is None
    assert found.heartbeat.error.name == "LakehouseError"


def test_a_pipelines_folder_that_cannot_be_used_ends_it_by_name(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for manifests in (PIPELINES, SOURCES):
        shutil.copytree(PROJECT_DIR / manifests, tmp_path / manifests)
    shutil.copy(PROJECT_DIR / "pyproject.toml", tmp_path)
    (tmp_path / PIPELINES / settings.names.pipeline / QUERY_FILE).write_text("SELECT")
    assert Publisher(settings.model_copy(update={"project": tmp_path})).run() == 2
    error = observe(settings, PUBLISHER).heartbeat.error
    assert (error.name, error.restart_helps) == ("QueryRefusedError", False)


def test_its_steps_do_not_read_the_pipelines_folder_again(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(publisher, "POLL_SECONDS", 0.001)
    let_outbox_feed(settings, monkeypatch)
    read, folders = project.read_project, []

    def count(folder: Path) -> project.Project:
        folders.append(folder)
        return read(folder)

    monkeypatch.setattr(plan, "read_project", count)
    run_for(Publisher(settings), shop, orders=3)
    assert folders == [settings.project]


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> Callable[[BaseException], list[DriverState]]:
    """Makes each of its beats while it runs end with an error; gives the states it tried."""
    write = publisher.write_heartbeat
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(publisher, "BEAT_SECONDS", 0.001)

    def fail(error: BaseException) -> list[DriverState]:
        tried = []

        def write_or_fail(settings: Settings, beat: Heartbeat) -> None:
            tried.append(beat.state)
            if beat.state is DriverState.RUNNING:
                raise error
            write(settings, beat)

        monkeypatch.setattr(publisher, "write_heartbeat", write_or_fail)
        return tried

    return fail


def test_a_heartbeat_that_ends_ends_the_publisher_by_name(
    settings: Settings, shop: Shop, beats: Callable[[BaseException], list[DriverState]]
) -> None:
    beats(ValueError("no such figure"))
    with pytest.raises(ValueError, match="no such figure"):
        Publisher(settings).run()
    found = observe(settings, PUBLISHER).heartbeat
    assert (found.state, found.error.name) == (DriverState.FAILED, "ValueError")


def test_a_disk_that_is_full_ends_no_heartbeat(
    settings: Settings,
    shop: Shop,
    beats: Callable[[BaseException], list[DriverState]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = beats(OSError(28, "No space left on device"))
    one = Publisher(settings)
    monkeypatch.setattr(one, "_is_desired", lambda: len(tried) < 3)
    monkeypatch.setattr(publisher, "POLL_SECONDS", 0.001)
    assert one.run() == 0
    assert read_heartbeat(settings, PUBLISHER).state is DriverState.STOPPED


def run_for(publisher: Publisher, shop: Shop, orders: int) -> None:
    """Let it work until it has published so many new orders, each in a commit, and stop it."""
    left = iter(range(orders))

    def is_desired() -> bool:
        if next(left, None) is None:
            return False
        shop.order(1)
        shop.stream(StreamMode.OUTBOX)
        return True

    publisher._is_desired = is_desired
    assert publisher.run() == 0


@pytest.mark.parametrize("commits_of_a_publisher", [1, 3, 12])
def test_restarts_do_not_put_off_that_it_keeps_its_table_small(
    settings: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch, commits_of_a_publisher: int
) -> None:
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.setattr(maintenance, "MAINTAIN_COMMITS", MAINTAIN_COMMITS)
    monkeypatch.setattr(maintenance, "VACUUM_MAINTENANCES", 1)
    monkeypatch.setattr(publisher, "POLL_SECONDS", 0.001)
    let_outbox_feed(settings, monkeypatch)
    for _ in range(12 // commits_of_a_publisher):
        run_for(Publisher(settings), shop, commits_of_a_publisher)
    assert len(published(settings)) == 2 + 12
    log = Path(settings.table_uri("orders_enriched/orders_enriched")) / "_delta_log"
    last = json.loads((log / "_last_checkpoint").read_text())
    assert version_of(settings) - last["version"] <= MAINTAIN_COMMITS
    assert last["version"] > MAINTAIN_COMMITS
    assert read_heartbeat(settings, PUBLISHER).frontier is not None


def test_one_step_by_hand_publishes_all(settings: Settings, shop: Shop) -> None:
    assert "nothing is published yet" in lockstep("status")
    assert "of batch" in lockstep("step")
    assert set(published(settings)) == {1, 2}


def test_a_switch_by_hand_asks_first(settings: Settings, shop: Shop, monkeypatch) -> None:
    let_outbox_feed(settings, monkeypatch)
    before = version_of(settings)
    asked = CliRunner().invoke(app, ["publish", "switch", "batch"], input="n\n")
    assert asked.exit_code == 1
    assert "is fed by outbox" in asked.stdout
    assert version_of(settings) == before
    assert "outbox → batch" in lockstep("switch", "batch", "--yes")
