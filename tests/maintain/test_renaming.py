"""A pipeline under another name: shown first, then all of it, and done again if broken off."""

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.cli import app
from lockstep.errors import LakehouseError, WriterBusyError
from lockstep.maintain import removal, renaming
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.plan import plan_named
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import writer_lock
from lockstep.supervise import lease
from lockstep.supervise.desired import DesiredState, read_desired, write_desired
from lockstep.supervise.errors import StreamBusyError
from lockstep.supervise.folder import mode_folder
from typer.testing import CliRunner, Result

from tests.project import PROJECT_DIR

OLD, NEW = "lines_priced", "lines_valued"
PARTS = ("__batch", "__temporal", "", "__ledger")
OTHER = "consignments_booked/consignments_booked__batch"


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A project of two pipelines of one source, with tables of both, and a stream."""
    project = tmp_path / "project"
    for folder in (
        f"include/sql/{OLD}",
        "include/sql/consignments_booked",
        "include/sources/depot",
    ):
        shutil.copytree(PROJECT_DIR / folder, project / folder)
    manifest = project / "include" / "sql" / OLD / "pipeline.toml"
    text = manifest.read_text(encoding="utf-8")
    own = f'message_prefix = "lockstep.message.{OLD}"\nmodes'
    manifest.write_text(text.replace("modes", own, 1), encoding="utf-8")
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(project))
    monkeypatch.setenv("LOCKSTEP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LOCKSTEP_PIPELINE", "consignments_booked")
    monkeypatch.setattr(removal, "PATIENCE_SECONDS", 0.0)
    made = Settings.load()
    for table in (*tables_of(OLD), OTHER):
        write_deltalake(made.table_uri(table), pa.table({"number": [1]}))
    write_desired(made, f"{OLD}__temporal", DesiredState.STOPPED, "a test")
    return made


def tables_of(name: str) -> list[str]:
    return [f"{name}/{name}{part}" for part in PARTS]


def rename(*options: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", "rename", *options])


def there(settings: Settings, name: str) -> int:
    return sum(DeltaTable.is_deltatable(settings.table_uri(one)) for one in tables_of(name))


def require_renamed(settings: Settings) -> None:
    assert (there(settings, OLD), there(settings, NEW)) == (0, len(PARTS))
    assert not (Path(settings.lakehouse_uri) / OLD).exists()
    assert DeltaTable.is_deltatable(settings.table_uri(OTHER))
    assert not mode_folder(settings, f"{OLD}__temporal").exists()
    assert read_desired(settings, f"{NEW}__temporal").reason == "a test"
    plan = plan_named(settings.project, NEW)
    assert (plan.lock_problem, plan.message_prefix) == ("", f"lockstep.message.{OLD}")


def test_without_yes_it_is_only_shown(settings: Settings) -> None:
    shown = rename(OLD, NEW)
    assert shown.exit_code == 0
    for old, new in zip(tables_of(OLD), tables_of(NEW), strict=True):
        assert f"{old} → " in shown.stdout
        assert new in shown.stdout
    assert "nothing was changed" in shown.stdout
    assert (there(settings, OLD), there(settings, NEW)) == (len(PARTS), 0)
    assert plan_named(settings.project, OLD).lock_problem == ""


def test_all_that_is_the_pipelines_own_moves_and_nothing_else(settings: Settings) -> None:
    version = plan_named(settings.project, OLD).version
    assert rename(OLD, NEW, "--yes").exit_code == 0
    require_renamed(settings)
    assert plan_named(settings.project, NEW).version == version
    lock = settings.project / "include" / "sql" / NEW / "result.lock"
    assert json.loads(lock.read_text(encoding="utf-8"))["pipeline"] == NEW


def test_what_was_broken_off_is_done_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved, move = [], Path.rename

    def end_after_two(self: Path, target: Path) -> Path:
        if len(moved) == 2:
            raise KeyboardInterrupt
        moved.append(self)
        return move(self, target)

    monkeypatch.setattr(Path, "rename", end_after_two)
    with pytest.raises(KeyboardInterrupt):
        renaming.rename(settings, OLD, NEW)
    monkeypatch.undo()
    assert there(settings, NEW) == 2
    renaming.rename(settings, OLD, NEW)
    require_renamed(settings)


def test_nothing_moves_while_a_stream_runs_or_a_table_is_written(settings: Settings) -> None:
    with lease.acquire(settings, f"{OLD}__temporal"), pytest.raises(StreamBusyError):
        renaming.rename(settings, OLD, NEW)
    with (
        writer_lock(Path(settings.table_uri(tables_of(OLD)[0])), 0.0),
        pytest.raises(WriterBusyError),
    ):
        renaming.rename(settings, OLD, NEW)
    assert there(settings, OLD) == len(PARTS)
    assert plan_named(settings.project, OLD).lock_problem == ""


@pytest.mark.parametrize(
    ("names", "named"),
    [
        ((OLD, "A b"), "the new name"),
        ((OLD, "depot"), "depot is the name of a source"),
        (("nothing", NEW), "there is no pipeline nothing"),
        (("consignments_booked", NEW), "message_prefix = .lockstep.message.consignments_booked"),
    ],
)
def test_what_cannot_be_renamed_is_refused(
    settings: Settings, names: tuple[str, str], named: str
) -> None:
    with pytest.raises(PipelineError, match=named):
        renaming.rename(settings, *names)


def test_a_place_that_is_taken_is_named(settings: Settings) -> None:
    write_deltalake(settings.table_uri(tables_of(NEW)[0]), pa.table({"number": [1]}))
    with pytest.raises(LakehouseError, match=f"{NEW}__batch is there already"):
        renaming.rename(settings, OLD, NEW)
    assert there(settings, OLD) == len(PARTS)
