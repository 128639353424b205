"""The whole of it: a dry run changes nothing and says the same; failures are named."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest
from lockstep.airflow_admin.environment import airflow_home
from lockstep.cli import app
from lockstep.host import files
from lockstep.host.files import bounded_log
from lockstep.maintain.outcome import State
from lockstep.maintain.report import COLUMNS
from lockstep.maintain.run import maintain
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from pizzeria.names import LAKEHOUSE_TABLES, PARITY_LEDGER, change_log_table
from typer.testing import CliRunner

from tests.maintain.aging import age
from tests.maintain.test_tables import with_a_dead_file

NOW = datetime.now(UTC)


@pytest.fixture
def grown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A home in which everything but the metadata has grown."""
    for field in Settings.model_fields:
        monkeypatch.delenv(f"LOCKSTEP_{field.upper()}", raising=False)
    monkeypatch.setenv("LOCKSTEP_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(files, "LOG_BYTES_MAX", 1_000)
    settings = Settings.load()
    for table in LAKEHOUSE_TABLES:
        with_a_dead_file(settings, table)
    bounded_log(settings.home, "kafka").write_bytes(b"x" * 3_000)
    logs = airflow_home(settings) / "logs"
    (logs / "dag_id=a" / "run_id=b").mkdir(parents=True)
    (logs / "dag_id=a" / "run_id=b" / "attempt=1.log").write_text("a line\n")
    age(logs, days=40)
    return settings


def everything_in(settings: Settings) -> dict[str, tuple[int, int]]:
    return {
        str(path): (path.stat().st_size, path.stat().st_mtime_ns)
        for path in settings.home.rglob("*")
    }


def test_a_dry_run_changes_nothing_and_gives_the_figures_of_the_run_after_it(
    grown: Settings,
) -> None:
    before = everything_in(grown)
    expected = list(maintain(grown, NOW, is_dry_run=True))
    assert everything_in(grown) == before
    assert list(maintain(grown, NOW, is_dry_run=False)) == expected
    assert sum(one.freed_bytes > 0 for one in expected) == len(LAKEHOUSE_TABLES) + 2
    again = list(maintain(grown, NOW, is_dry_run=False))
    assert [one.freed_bytes for one in again] == [0] * len(expected)


def test_the_command_shows_a_table_of_a_hundred_columns(grown: Settings) -> None:
    before = everything_in(grown)
    shown = CliRunner().invoke(app, ["maintain", "--dry-run"])
    assert shown.exit_code == 0
    assert max(map(len, shown.stdout.splitlines())) <= COLUMNS
    for what in (*(table.split("/")[-1] for table in LAKEHOUSE_TABLES), "services' logs"):
        assert what in shown.stdout
    assert "would free" in shown.stdout
    assert "done" not in shown.stdout
    assert everything_in(grown) == before


def test_the_command_prints_json_for_programs(grown: Settings) -> None:
    expected = list(maintain(grown, NOW, is_dry_run=True))
    shown = CliRunner().invoke(app, ["maintain", "--json"])
    found = {one["what"]: one for one in json.loads(shown.stdout)}
    assert {what: one["freed_bytes"] for what, one in found.items()} == {
        one.what: one.freed_bytes for one in expected
    }
    log = change_log_table(StreamMode.OUTBOX)
    assert found[log.split("/")[-1]]["state"] == State.KEPT
    assert found[log.split("/")[-1]]["where"] == grown.table_uri(log)


def test_the_command_exits_with_1_when_something_could_not_be_done(grown: Settings) -> None:
    (Path(grown.table_uri(PARITY_LEDGER)) / "_delta_log" / f"{0:020}.json").write_text("{")
    shown = CliRunner().invoke(app, ["maintain"])
    assert shown.exit_code == 1
    assert "failed" in shown.stdout
    assert all(one.freed_bytes == 0 for one in maintain(grown, NOW, is_dry_run=True))
