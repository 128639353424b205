"""Logs stay bounded while those who write them go on; old logs of Airflow go, run by run."""

import os
import signal
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lockstep.airflow_admin.environment import airflow_home
from lockstep.airflow_admin.metadata import long_running
from lockstep.host import files, process
from lockstep.host.files import bounded_log
from lockstep.host.process import Launch
from lockstep.maintain.airflow_files import clean_metadata, remove_task_logs
from lockstep.maintain.outcome import State
from lockstep.maintain.service_logs import cut_service_logs
from lockstep.settings import Settings
from pydantic import SecretStr

from tests.maintain.aging import age
from tests.project import PROJECT_DIR

LIMIT = 20_000
DEADLINE_SECONDS = 30.0
NOW = datetime.now(UTC)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(files, "LOG_BYTES_MAX", LIMIT)
    return Settings(home=tmp_path / "home")


@pytest.fixture
def talkative(settings: Settings) -> Iterator[Path]:
    """The log of a service that writes numbered lines without end, started as all services are."""
    program = "import itertools\nfor i in itertools.count(): print(f'line {i}', flush=True)"
    log = bounded_log(settings.home, "talkative")
    launch = Launch([sys.executable, "-c", program], log, dict(os.environ), settings.home)
    record = process.spawn("talkative", launch)
    yield log
    process.stop(record, signal.SIGTERM, DEADLINE_SECONDS)


def wait_for_bytes(log: Path, count: int) -> None:
    deadline = time.monotonic() + DEADLINE_SECONDS
    while log.stat().st_size < count:
        assert time.monotonic() < deadline, f"{log} has {log.stat().st_size} bytes"
        time.sleep(0.01)


def numbers_in(text: bytes) -> list[int]:
    """Of whole lines, which must be lines of the service and nothing else."""
    lines = text.split(b"\n")[1:-1]
    assert all(line.startswith(b"line ") for line in lines), lines[:3]
    return [int(line.removeprefix(b"line ")) for line in lines]


def test_a_log_is_cut_while_its_service_writes_on(settings: Settings, talkative: Path) -> None:
    old = talkative.with_suffix(".log.1")
    last = -1
    for _ in range(3):
        wait_for_bytes(talkative, LIMIT * 2)
        outcome = cut_service_logs(settings, is_dry_run=False)
        assert (outcome.state, outcome.freed_bytes > 0) == (State.DONE, True)
        kept = numbers_in(old.read_bytes())
        assert old.stat().st_size >= LIMIT  # and what was written meanwhile
        assert kept == list(range(kept[0], kept[-1] + 1))
        assert kept[0] > last
        wait_for_bytes(talkative, 2_000)
        written = numbers_in(talkative.read_bytes())  # no hole of zeros where the old lines were
        assert written[0] > kept[-1]
        last = kept[-1]


def test_a_log_within_its_bound_is_left_alone(settings: Settings) -> None:
    log = bounded_log(settings.home, "kafka")
    log.write_bytes(b"x" * LIMIT)
    assert cut_service_logs(settings, is_dry_run=False).freed_bytes == 0
    assert log.stat().st_size == LIMIT
    assert [path.name for path in log.parent.iterdir()] == ["kafka.log"]


def test_the_end_of_a_log_is_kept_for_its_owner_alone(settings: Settings) -> None:
    log = bounded_log(settings.home, "kafka")
    old = log.with_suffix(".log.1")
    for size in (LIMIT + 5, LIMIT + 7):
        log.write_bytes(b"x" * (size - 4) + b"end\n")
        before = sum(path.stat().st_size for path in log.parent.iterdir())
        expected = cut_service_logs(settings, is_dry_run=True)
        assert log.stat().st_size == size
        outcome = cut_service_logs(settings, is_dry_run=False)
        assert outcome == expected
        assert (outcome.before_bytes, outcome.freed_bytes) == (before, before - LIMIT)
        assert (log.read_bytes(), old.stat().st_mode & 0o777) == (b"", 0o600)
        assert (old.stat().st_size, old.read_bytes()[-4:]) == (LIMIT, b"end\n")
    assert len(list(log.parent.iterdir())) == 2


def test_every_service_appends_to_its_log(settings: Settings) -> None:
    """What a cut rests on: one that wrote at its own position would leave a hole."""
    log = bounded_log(settings.home, "kafka")
    program = "import fcntl, os; print(fcntl.fcntl(1, fcntl.F_GETFL) & os.O_APPEND == os.O_APPEND)"
    launch = Launch([sys.executable, "-c", program], log, dict(os.environ), settings.home)
    record = process.spawn("kafka", launch)
    deadline = time.monotonic() + DEADLINE_SECONDS
    while record.process() is not None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert log.read_text() == "True\n"


def task_log(settings: Settings, run: str, name: str, days: float) -> Path:
    path = airflow_home(settings) / "logs" / "dag_id=stream_outbox" / f"run_id={run}"
    path = path / "task_id=supervise" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("a line\n")
    then = NOW.timestamp() - days * 86_400
    os.utime(path, (then, then))
    return path


def test_the_logs_of_a_run_go_together_once_none_is_written_any_more(settings: Settings) -> None:
    ended = [task_log(settings, "a", f"attempt={i}.log", days=40 - i) for i in (1, 2)]
    began = task_log(settings, "b", "attempt=1.log", days=40)
    watched = task_log(settings, "b", "attempt=1.log.trigger.7.log", days=0.01)
    expected = remove_task_logs(settings, NOW, is_dry_run=True)
    assert all(path.exists() for path in ended)
    outcome = remove_task_logs(settings, NOW, is_dry_run=False)
    assert outcome == expected
    assert (outcome.before_bytes, outcome.freed_bytes) == (28, 14)
    assert [path.exists() for path in (*ended, began, watched)] == [False, False, True, True]
    assert not ended[0].parents[1].exists()


def test_the_days_set_how_long_airflows_logs_are_kept(settings: Settings) -> None:
    log = task_log(settings, "a", "attempt=1.log", days=8)
    remove_task_logs(settings, NOW, is_dry_run=False)
    assert log.exists()
    week = settings.model_copy(update={"airflow_kept_days": 7})
    assert "7 days" in remove_task_logs(week, NOW, is_dry_run=False).note
    assert not log.exists()


def test_old_logs_of_dag_files_go_and_the_folders_that_are_empty_then(settings: Settings) -> None:
    logs = airflow_home(settings) / "logs" / "dag_processor"
    old, new = logs / "2026-01-01" / "a.py.log", logs / "2026-02-20" / "a.py.log"
    for path in (old, new):
        path.parent.mkdir(parents=True)
        path.write_text("a line\n")
    age(old.parent, days=40)
    os.utime(old.parent, (0, 0))
    (logs / "latest").symlink_to(new.parent)
    assert remove_task_logs(settings, NOW, is_dry_run=False).freed_bytes == 7
    assert (old.exists(), new.exists(), (logs / "latest").exists()) == (False, True, True)
    remove_task_logs(
        settings, datetime.fromtimestamp(NOW.timestamp() + 40 * 86_400, UTC), is_dry_run=False
    )
    assert not new.exists()
    assert not old.parent.exists()


def test_before_the_first_start_there_is_nothing_to_do(settings: Settings) -> None:
    assert cut_service_logs(settings, is_dry_run=False).before_bytes == 0
    assert remove_task_logs(settings, NOW, is_dry_run=False).before_bytes == 0
    metadata = clean_metadata(settings, NOW, is_dry_run=False)
    assert metadata.state is State.SKIPPED
    assert "airflow db clean" in metadata.note


def test_metadata_of_a_stack_that_is_down_is_skipped(settings: Settings) -> None:
    known = settings.model_copy(update={"postgres_port": 1, "airflow_password": SecretStr("known")})
    metadata = clean_metadata(known, NOW, is_dry_run=False)
    assert metadata.state is State.SKIPPED
    assert "lockstep up" in metadata.note


def test_the_runs_that_supervise_are_kept_of_every_pipeline() -> None:
    kept = long_running(PROJECT_DIR)
    assert {"orders_enriched__temporal", "lines_priced__lookup", "lines_priced__publish"} <= set(
        kept
    )
    assert not any(dag_id.endswith(("__batch", "__parity")) for dag_id in kept)
