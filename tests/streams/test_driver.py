"""The driver: a mode that fails, whatever of it, does not take the others along."""

import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from lockstep.cdc.errors import PoisonedRecordError
from lockstep.model.modes import HISTORY
from lockstep.pipeline.catalog import TableName
from lockstep.pipeline.decoders import UnreadableColumnError
from lockstep.pipeline.errors import PipelineError
from lockstep.settings import Settings
from lockstep.streams import driver, history_tries
from lockstep.streams.driver import Driver
from lockstep.supervise import lease
from lockstep.supervise.desired import DesiredState, desired_path, write_desired
from lockstep.supervise.heartbeat import DriverState, read_heartbeat


@pytest.fixture
def hosting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A driver of two modes with their leases; its history cannot be read."""
    for module, name, value in (
        (driver.identity, "claim", SimpleNamespace(capture_id=1)),
        (driver, "current_xid", 1),
        (driver, "is_alive", True),
    ):
        monkeypatch.setattr(module, name, lambda *_, value=value: value)

    def sink_of(_spark: object, mode: str, _capture_id: int, **_: object) -> object:
        if mode in ("temporal", HISTORY):
            raise ValueError("a file of the history is no Parquet file")
        return mode

    runner = SimpleNamespace(start=lambda neighbours: 0, adapts=True)
    monkeypatch.setattr(driver.RunnerMaker, "of", lambda *_: makes(lambda _: runner))
    one = Driver(Settings(home=tmp_path / "home"), ["outbox", "temporal"])
    modes = SimpleNamespace(
        make_table=lambda _: None,
        table_of=lambda mode: mode,
        sink_of=sink_of,
        begin=lambda *_: None,
        given_up=lambda _: None,
        kept={},
        plan=SimpleNamespace(tables={}),
    )
    monkeypatch.setattr(driver.Modes, "of", lambda *_: modes)
    one._modes = dict.fromkeys(("outbox", "temporal", HISTORY), modes)
    monkeypatch.setattr(one._beats, "_of", lambda *_: {"incomplete": ()})
    monkeypatch.setattr(one._capture, "follow", lambda *_: None)
    one.take_leases()
    yield one
    for held in one._leases.values():
        held.release()


def makes(runner_of: Callable[[str], object]) -> SimpleNamespace:
    """In place of a RunnerMaker: a runner by its name."""
    return SimpleNamespace(readers=SimpleNamespace(), runner=lambda *given: runner_of(given[-1]))


def test_a_mode_that_cannot_start_is_dropped_and_named_and_the_others_start(
    hosting: Driver, capfd: pytest.CaptureFixture[str]
) -> None:
    hosting._start("temporal")
    hosting._start("outbox")
    settings = hosting._settings
    assert list(hosting._runners) == ["outbox"]
    failed = read_heartbeat(settings, "temporal")
    assert (failed.state, failed.error.name) == (DriverState.FAILED, "ValueError")
    assert lease.holder(settings, "temporal") is None
    assert lease.holder(settings, "outbox") is not None
    assert "Traceback" in capfd.readouterr().err


def test_a_mode_writes_as_of_the_capture_that_its_start_has_claimed(
    hosting: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = []
    monkeypatch.setattr(driver.identity, "claim", lambda *_: SimpleNamespace(capture_id=7))
    hosting._modes["outbox"].sink_of = lambda *given, **_: opened.append(given[1:])
    hosting._start("outbox")
    assert opened == [("outbox", 7)]


@pytest.mark.parametrize("error", [ValueError("x"), PoisonedRecordError("topic", 0, 7, "x")])
def test_a_history_that_fails_fails_no_mode_and_is_tried_again_after_a_pause(
    hosting: Driver, clock: list[float], error: Exception
) -> None:
    """A record that cannot be read may be given up in the meantime."""

    def fails(*_: object, **__: object) -> None:
        raise error

    hosting._modes["outbox"].sink_of = fails
    tried = []
    start = hosting._start
    hosting._start = lambda mode: (tried.append(mode), start(mode))
    for _ in range(3):
        hosting._host_history()
    clock[0] += history_tries.PAUSE_SECONDS
    hosting._host_history()
    assert tried == [HISTORY, HISTORY]
    assert not hosting.failures


def test_the_history_goes_on_at_once_without_a_column_that_it_cannot_read(
    hosting: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Unless that is of a key. Pipelines that do not read it need the rest of the history."""
    table, tried = TableName("public", "orders"), []
    hosting._modes[HISTORY].captured = {table: SimpleNamespace(key=("id",))}

    def of(_: Settings, unread: set, _versions: object) -> object:
        tried.append(set(unread))
        return hosting._modes[HISTORY]

    def fails(*_: object, **__: object) -> None:
        column = "note" if len(tried) == 1 else "id"
        why = UnreadableColumnError(table, column, "is gone")
        raise PoisonedRecordError("topic", 0, 7, str(why)) from why

    monkeypatch.setattr(driver.Modes, "of", of)
    hosting._modes[HISTORY].sink_of = fails
    for _ in range(3):
        hosting._host_history()
    assert tried == [set(), {(table, "note")}]
    assert not hosting.failures


def test_the_history_is_hosted_by_one_driver_unless_a_rebuild_asks_for_it(
    hosting: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparisons of every mode wait for the history; no driver waits for its lease."""
    settings = hosting._settings
    hosting._start = lambda mode: None
    with lease.acquire(settings, HISTORY), monkeypatch.context() as patched:
        patched.setattr(lease, "acquire", lambda *_: pytest.fail("it has the patience of a start"))
        hosting._host_history()
        assert HISTORY not in hosting._leases
    write_desired(settings, HISTORY, DesiredState.STOPPED, "by a rebuild")
    hosting._host_history()
    assert HISTORY not in hosting._leases
    write_desired(settings, HISTORY, DesiredState.RUNNING, "by a rebuild")
    hosting._host_history()
    assert HISTORY in hosting._leases


def test_while_one_mode_takes_long_to_end_the_others_go_on_to_beat(
    hosting: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver, "BEAT_SECONDS", 0.01)
    monkeypatch.setattr(hosting._beats, "_distance", lambda *_: {})
    monkeypatch.setattr(hosting, "_clock", SimpleNamespace(read=lambda: None))
    hosting._runners = {"outbox": SimpleNamespace(), "temporal": LongMicroBatch(hosting)}
    hosting._drop("temporal")
    assert lease.holder(hosting._settings, "temporal") is None
    assert read_heartbeat(hosting._settings, "temporal").state is DriverState.STOPPED


class LongMicroBatch:
    """Ends when the other mode has beaten twice since."""

    def __init__(self, hosting: Driver) -> None:
        self._settings = hosting._settings

    def stop(self) -> None:
        beats = set()
        deadline = time.monotonic() + 10
        while len(beats) < 2:
            assert time.monotonic() < deadline
            beat = read_heartbeat(self._settings, "outbox")
            beats |= {beat.beat_at} if beat else set()


class QuietQuery:
    """Of a runner at work; what a test puts in the place of a method is its defect."""

    adapts = True

    def failure(self) -> None:
        return None

    def stop(self) -> None:
        return None


@pytest.fixture
def at_work(hosting: Driver, monkeypatch: pytest.MonkeyPatch) -> Driver:
    """Both modes run, and the driver looks after them without a pause."""
    monkeypatch.setattr(driver, "POLL_SECONDS", 0.0)
    monkeypatch.setattr(driver, "BEAT_SECONDS", 0.0)
    monkeypatch.setattr(hosting._beats, "_distance", lambda *_: {})
    monkeypatch.setattr(hosting, "_clock", SimpleNamespace(read=lambda: None))
    hosting._runners = {"outbox": QuietQuery(), "temporal": QuietQuery()}
    return hosting


def look_after(hosting: Driver, rounds: int = 3) -> None:
    """As the driver does until it is asked to stop, so many times."""
    left = iter([False] * rounds)
    hosting._asked_to_stop = SimpleNamespace(wait=lambda _: next(left, True))
    hosting._watch()


def last_beat(hosting: Driver, mode: str) -> tuple[DriverState, str | None]:
    beat = read_heartbeat(hosting._settings, mode)
    return beat.state, beat.error and beat.error.name


def make_unreadable(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (lambda path: path.write_text("{"), "StreamError"),
        (lambda path: path.write_bytes(b'{"state": "\xff"}'), "StreamError"),
        (make_unreadable, "IsADirectoryError"),
    ],
    ids=["cut off", "no text", "no file"],
)
@pytest.mark.parametrize("mode", ["outbox", "temporal"])
def test_a_desired_state_that_cannot_be_read_ends_no_mode_and_is_reported(
    at_work: Driver, mode: str, damage: Callable[[Path], None], error: str
) -> None:
    settings, (other,) = at_work._settings, {"outbox", "temporal"} - {mode}
    path = desired_path(settings, mode)
    for one in (mode, other):
        write_desired(settings, one, DesiredState.RUNNING, "by a test")
    damage(path)
    look_after(at_work)
    assert sorted(at_work._runners) == ["outbox", "temporal"]
    assert last_beat(at_work, mode) == (DriverState.RUNNING, error)
    assert str(path) in read_heartbeat(settings, mode).error.message
    assert last_beat(at_work, other) == (DriverState.RUNNING, None)


def test_a_stop_writes_a_damaged_desired_state_again_and_is_obeyed(at_work: Driver) -> None:
    path = desired_path(at_work._settings, "temporal")
    write_desired(at_work._settings, "temporal", DesiredState.RUNNING, "by a test")
    path.write_text("{")
    look_after(at_work)
    write_desired(at_work._settings, "temporal", DesiredState.STOPPED, "by a test")
    at_work._host_history = lambda: None
    look_after(at_work)
    assert list(at_work._runners) == ["outbox"]
    assert last_beat(at_work, "temporal") == (DriverState.STOPPED, None)
    assert not at_work.failures


def raise_defect(*_: object) -> None:
    raise ValueError("a defect of one mode")


def break_query(hosting: Driver) -> None:
    hosting._runners["temporal"].failure = raise_defect


def break_figures(hosting: Driver) -> None:
    def figures(mode: str, *_: object) -> dict:
        return {"incomplete": ()} if mode == "outbox" else raise_defect()

    hosting._beats._of = figures


def break_end(hosting: Driver) -> None:
    hosting._runners["temporal"].stop = raise_defect
    write_desired(hosting._settings, "temporal", DesiredState.STOPPED, "by a test")


@pytest.mark.parametrize("harm", [break_query, break_figures, break_end])
def test_a_defect_of_one_mode_is_that_modes_failure_alone(
    at_work: Driver, harm: Callable[[Driver], None], capfd: pytest.CaptureFixture[str]
) -> None:
    at_work._host_history = lambda: None
    harm(at_work)
    look_after(at_work)
    assert list(at_work._runners) == ["outbox"]
    assert last_beat(at_work, "temporal") == (DriverState.FAILED, "ValueError")
    assert last_beat(at_work, "outbox") == (DriverState.RUNNING, None)
    assert lease.holder(at_work._settings, "temporal") is None
    assert lease.holder(at_work._settings, "outbox") is not None
    assert at_work.failures
    assert "a defect of one mode" in capfd.readouterr().err


def test_a_jvm_that_ends_ends_all_even_if_one_mode_sees_it_first(
    at_work: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections break, and a mode fails, before its process is gone."""
    at_work._host_history = lambda: None
    is_there = iter([True])
    break_query(at_work)
    monkeypatch.setattr(driver, "is_alive", lambda _, *waits: not waits and next(is_there, False))
    look_after(at_work)
    for mode in ("outbox", "temporal"):
        assert last_beat(at_work, mode) == (DriverState.FAILED, "StreamError")
        assert "JVM" in str(at_work.failures[mode])


def test_a_capture_watch_that_ended_ends_the_modes_by_name(
    at_work: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_work._host_history = lambda: None
    monkeypatch.setattr(at_work._capture, "_thread", threading.Thread(target=lambda: None))
    at_work._capture.start()
    at_work._capture._thread.join()
    look_after(at_work)
    for mode in ("outbox", "temporal"):
        assert last_beat(at_work, mode) == (DriverState.FAILED, "CaptureUnwatchedError")


@pytest.fixture
def taking(hosting: Driver) -> Iterator[Driver]:
    """The driver of its source, which hosts outbox alone."""
    hosting._takes_others = True
    hosting._leases.pop("temporal").release()
    hosting._wanted = ["outbox"]
    hosting.take_leases()
    hosting._start("outbox")
    yield hosting
    hosting._source_lease.release()


def ask(hosting: Driver, mode: str, pid: int | None = None) -> None:
    running = DesiredState.RUNNING
    write_desired(hosting._settings, mode, running, "a test", joins=pid or os.getpid())


def test_a_stream_that_is_asked_of_the_sources_driver_joins_it(
    taking: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver.Modes, "of", lambda *_: taking._modes["outbox"])
    ask(taking, "message")
    ask(taking, "lookup", pid=1)
    taking._take_in_others()
    assert list(taking._runners) == ["outbox", "message"]
    assert lease.holder(taking._settings, "message") == os.getpid()
    assert lease.holder(taking._settings, "lookup") is None
    beat = read_heartbeat(taking._settings, "message")
    assert beat.state is DriverState.RUNNING
    assert beat.started_at > beat.driver_started_at


def test_one_that_cannot_be_taken_in_is_tried_again_only_when_it_is_asked_again(
    taking: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def fails(settings: Settings, *_: object) -> None:
        tried.append(settings)
        raise PipelineError("the folder is broken")

    monkeypatch.setattr(driver.Modes, "of", fails)
    ask(taking, "message")
    for _ in range(2):
        taking._take_in_others()
    assert (len(tried), list(taking._runners)) == (1, ["outbox"])
    assert last_beat(taking, "message") == (DriverState.FAILED, "PipelineError")
    assert lease.holder(taking._settings, "message") is None
    ask(taking, "message")
    taking._take_in_others()
    assert len(tried) == 2


def test_a_stream_that_has_far_more_neighbours_than_before_is_started_again_for_them(
    taking: Driver, monkeypatch: pytest.MonkeyPatch, clock: list[float]
) -> None:
    """It pauses for each: started alone, it would leave the others no processor."""
    started = []
    monkeypatch.setattr(driver.Modes, "of", lambda *_: taking._modes["outbox"])
    taking._maker = makes(lambda name: Started(name, started))
    taking._runners["outbox"] = Started("outbox", started)
    for mode in ("message", "lookup"):
        ask(taking, mode)
        taking._take_in_others()
    taking._share_cores()
    assert started == [("message", 1), ("lookup", 2)]
    clock[0] += driver.SETTLED_SECONDS
    for _ in range(2):
        taking._share_cores()
    assert started == [("message", 1), ("lookup", 2), ("outbox", "stopped"), ("outbox", 2)]
    assert lease.holder(taking._settings, "outbox") == os.getpid()


def test_a_stream_that_adapts_leaves_a_new_neighbour_its_share_at_once(taking: Driver) -> None:
    (runner,) = taking._runners.values()
    ask(taking, "message")
    taking._take_in_others()
    taking._share_cores()
    assert [one.neighbours for one in taking._runners.values()] == [1, 1]
    assert runner is taking._runners["outbox"]


class Started:
    """A runner that notes its starts, with the neighbours given, and its end."""

    adapts = False

    def __init__(self, mode: str, started: list[tuple[str, object]]) -> None:
        self._mode, self._started, self.neighbours = mode, started, 0

    def start(self, neighbours: int) -> None:
        self.neighbours = neighbours
        self._started.append((self._mode, neighbours))

    def stop(self) -> None:
        self._started.append((self._mode, "stopped"))


def test_one_that_another_process_has_is_left_to_it(taking: Driver) -> None:
    with lease.acquire(taking._settings, "message"):
        ask(taking, "message")
        taking._take_in_others()
    assert list(taking._runners) == ["outbox"]
    assert read_heartbeat(taking._settings, "message") is None


def test_a_driver_that_is_not_its_sources_takes_nothing_in(hosting: Driver) -> None:
    hosting._takes_others = True
    with lease.acquire_source(hosting._settings, "outbox"):
        hosting.take_leases()
    assert hosting._source_lease is None
    ask(hosting, "message")
    hosting._take_in_others()
    assert lease.holder(hosting._settings, "message") is None


def test_a_pipeline_whose_folder_is_broken_takes_no_other_along(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(project=project, home=project / "home", pipeline="readings")
    one, worked = Driver(settings, ["temporal", "ratings__outbox"]), []

    def modes_of(of: Settings, *_: object) -> object:
        if of.names.pipeline == "readings":
            raise PipelineError("readings is broken")
        return SimpleNamespace(name=of.names.pipeline, table_of=lambda mode: mode)

    monkeypatch.setattr(driver.Modes, "of", modes_of)
    monkeypatch.setattr(one, "_work", lambda: worked.extend(one._leases))
    assert one.run() == 2
    assert worked == ["ratings__outbox"]
    assert one._modes[HISTORY].name == "ratings"
    failed = read_heartbeat(settings, "temporal")
    assert (failed.state, failed.error.message) == (DriverState.FAILED, "readings is broken")
    assert read_heartbeat(settings, "ratings__outbox").state is DriverState.STOPPED


def test_streams_of_several_pipelines_go_by_mode_and_address_and_have_their_own_settings(
    project: Path,
) -> None:
    settings = Settings(project=project, home=project / "home", pipeline="readings")
    one = Driver(settings, ["temporal", "ratings__outbox"])
    of, mode = one._streams["ratings__outbox"]
    assert (of.names.change_log(mode), mode) == ("ratings/ratings__outbox", "outbox")
    one.take_leases()
    own = settings.of("ratings")
    assert lease.holder(own, "outbox") == lease.holder(settings, "ratings__outbox") is not None
    for held in one._leases.values():
        held.release()


def test_streams_of_two_sources_are_refused_before_anything_is_taken(project: Path) -> None:
    settings = Settings(project=project, home=project / "home", pipeline="readings")
    with pytest.raises(PipelineError, match="are of the sources plant, shop: start a driver for"):
        Driver(settings, ["temporal", "sales__outbox"]).run()
    assert lease.holder(settings, "temporal") is None


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Two pipelines of one source, and one of another: only what names are read from."""
    for pipeline, source in (("readings", "plant"), ("ratings", "plant"), ("sales", "shop")):
        for file, text in (
            (f"sql/{pipeline}/pipeline.toml", f'sources = ["{source}"]\n'),
            (f"sources/{source}/source.toml", f'database = "{source}"\n'),
        ):
            (tmp_path / "include" / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / "include" / file).write_text(text)
    return tmp_path
