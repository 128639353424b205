"""Removing a pipeline: shown first, and then all that is its own, and nothing else."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.cli import app
from lockstep.errors import LakehouseError, WriterBusyError
from lockstep.maintain import removal
from lockstep.pipeline.errors import PipelineError
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import writer_lock
from lockstep.supervise import lease
from lockstep.supervise.desired import DesiredState, write_desired
from lockstep.supervise.errors import StreamBusyError
from lockstep.supervise.folder import mode_folder
from typer.testing import CliRunner, Result

from tests.project import PROJECT_DIR

NAME = "orders_again"
OWN = (
    f"{NAME}/{NAME}__batch",
    f"{NAME}/{NAME}__outbox",
    f"{NAME}/{NAME}",
    f"{NAME}/{NAME}__ledger",
)
OTHERS = ("orders_enriched/orders_enriched__batch", "pizzeria/pizzeria__history")


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """A project of two pipelines of one source, with tables of both, and a stream of each."""
    project = tmp_path / "project"
    for folder in ("include/sql/orders_enriched", "include/sources/pizzeria"):
        shutil.copytree(PROJECT_DIR / folder, project / folder)
    pipelines = project / "include" / "sql"
    shutil.copytree(pipelines / "orders_enriched", pipelines / NAME)
    monkeypatch.setenv("LOCKSTEP_PROJECT", str(project))
    monkeypatch.setenv("LOCKSTEP_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("LOCKSTEP_PIPELINE", "orders_enriched")
    monkeypatch.setattr(removal, "PATIENCE_SECONDS", 0.0)
    made = Settings.load()
    for table in (*OWN, *OTHERS):
        write_deltalake(made.table_uri(table), pa.table({"number": [1]}))
    for worker in (f"{NAME}__outbox", "outbox"):
        write_desired(made, worker, DesiredState.STOPPED, "a test")
    return made


def rm(*options: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", "rm", *options])


def tables(settings: Settings) -> set[str]:
    return {t for t in (*OWN, *OTHERS) if DeltaTable.is_deltatable(settings.table_uri(t))}


def test_without_yes_it_is_only_shown(settings: Settings) -> None:
    shown = rm(NAME).stdout
    for table in OWN:
        assert table in shown
    assert f"include/sql/{NAME}" in shown
    assert f"streams/{NAME}__outbox" in shown
    assert "lose it" in shown
    assert "nothing was changed" in shown
    assert "orders_enriched" not in shown.replace(str(settings.project), "")
    assert tables(settings) == {*OWN, *OTHERS}


def test_all_that_is_the_pipelines_own_goes_and_nothing_else(settings: Settings) -> None:
    assert rm(NAME, "--yes").exit_code == 0
    assert tables(settings) == {*OTHERS}
    assert not (Path(settings.lakehouse_uri) / NAME).exists()
    assert not (settings.project / "include" / "sql" / NAME).exists()
    assert not mode_folder(settings, f"{NAME}__outbox").exists()
    assert mode_folder(settings, "outbox").exists()
    assert (settings.project / "include" / "sql" / "orders_enriched").exists()
    again = rm(NAME, "--yes")
    assert isinstance(again.exception, PipelineError)
    assert "there is no pipeline orders_again, and nothing" in str(again.exception)


def test_what_was_broken_off_is_done_again(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    removed, rmtree = [], shutil.rmtree

    def end_after_two(folder: Path, **options: object) -> None:
        if len(removed) == 2:
            raise KeyboardInterrupt
        removed.append(folder)
        rmtree(folder, **options)

    monkeypatch.setattr(removal.shutil, "rmtree", end_after_two)
    with pytest.raises(KeyboardInterrupt):
        removal.remove(settings, removal.of_pipeline(settings, NAME))
    monkeypatch.undo()
    assert not (settings.project / "include" / "sql" / NAME).exists(), "the DAGs go first"
    removal.remove(settings, removal.of_pipeline(settings, NAME))
    assert tables(settings) == {*OTHERS}


def test_nothing_is_removed_while_a_stream_runs_or_a_table_is_written(settings: Settings) -> None:
    what = removal.of_pipeline(settings, NAME)
    with lease.acquire(settings, f"{NAME}__outbox"), pytest.raises(StreamBusyError):
        removal.remove(settings, what)
    with (
        writer_lock(Path(settings.table_uri(OWN[0])), 0.0),
        pytest.raises(WriterBusyError),
    ):
        removal.remove(settings, what)
    assert tables(settings) == {*OWN, *OTHERS}
    assert what.folder.exists()


@pytest.mark.parametrize("name", ["../orders_enriched", "..", "history", "Orders", "a__b", ""])
def test_what_is_no_name_is_refused(settings: Settings, name: str) -> None:
    assert isinstance(rm("--yes", "--", name).exception, PipelineError)
    assert tables(settings) == {*OWN, *OTHERS}


def test_of_an_object_store_the_tables_are_named_and_nothing_is_removed(
    settings: Settings,
) -> None:
    remote = settings.model_copy(update={"lakehouse": "s3a://bucket/lakehouse"})
    what = removal.of_pipeline(remote, NAME)
    with pytest.raises(LakehouseError, match=f"remove {OWN[0]}"):
        removal.remove(remote, what)
    assert what.folder.exists()
