"""A home of an earlier version: what `lockstep upgrade` makes of it, killed anywhere or not."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.errors import LakehouseError
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sinks.table_of_before import name_of_before
from lockstep.streams import identity, upgrade
from lockstep.streams.identity import StreamIdentity
from lockstep.streams.rebuild import rebuild
from lockstep.streams.upgrade import HISTORY_OF_BEFORE
from lockstep.supervise import lease
from lockstep.supervise.desired import DesiredState, read_desired, write_desired
from lockstep.supervise.errors import StreamBusyError
from lockstep.supervise.folder import OWN, folder_of_before, mode_folder, workers
from pizzeria.names import (
    LAKEHOUSE_TABLES,
    PARITY_LEDGER,
    SOURCE_HISTORY,
)

from tests.streams.topics import settings_of


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    """Its history has rows and an identity."""
    settings = settings_of(tmp_path)
    uri = settings.table_uri(f"pizzeria/{HISTORY_OF_BEFORE}")
    write_deltalake(uri, pa.table({"id": [1, 2]}))
    remember_as_before(settings, HISTORY, generation_of(uri))
    return settings


def remember_as_before(settings: Settings, mode: str, generation: str) -> None:
    """In the folder that earlier versions gave the worker."""
    remember(settings, mode, generation)
    mode_folder(settings, mode).rename(folder_of_before(settings, mode))


def generation_of(uri: str) -> str:
    return str(DeltaTable(uri).metadata().id)


def remember(settings: Settings, mode: str, generation: str) -> None:
    one = StreamIdentity(7, "pizzeria", "lockstep", "first", generation)
    identity.remember(settings, mode, one)


def is_of_this_version(settings: Settings) -> bool:
    folder = Path(settings.table_uri(f"pizzeria/{HISTORY_OF_BEFORE}")).parent
    is_forgotten = identity.read_remembered(settings, HISTORY) is None
    return is_forgotten and [one.name for one in folder.iterdir() if "dimension" in one.name] == []


def test_the_history_of_before_goes_with_what_its_writer_remembers(home: Settings) -> None:
    moved, removed = upgrade.upgrade(home)
    assert str(mode_folder(home, HISTORY)) in moved
    assert SOURCE_HISTORY in removed
    assert is_of_this_version(home)
    assert upgrade.upgrade(home) == []


def test_each_table_goes_to_where_its_name_says(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    found = as_earlier_versions_had_it(settings)
    assert len(found) == len(LAKEHOUSE_TABLES) - 1  # they had no source's history
    assert len(upgrade.upgrade(settings)) >= len(found)
    tables = {table: DeltaTable(settings.table_uri(table)).metadata().id for table in found}
    assert tables == found
    assert upgrade.upgrade(settings) == []


def test_each_workers_files_go_to_where_its_address_says(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    for worker in OWN:
        remember_as_before(settings, worker, worker)
        write_desired(settings, worker, DesiredState.RUNNING, "of this version, before the upgrade")
    assert len(upgrade.upgrade(settings)) == len(OWN)
    for worker in OWN:
        assert identity.read_remembered(settings, worker).generation == worker
        assert read_desired(settings, worker) is None
    assert workers(settings) == sorted(OWN)
    assert upgrade.upgrade(settings) == []


def test_no_stream_is_rebuilt_next_to_a_table_that_is_not_moved(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    as_earlier_versions_had_it(settings)
    with pytest.raises(LakehouseError, match="lockstep upgrade"):
        rebuild(settings, StreamMode.OUTBOX)


def test_nothing_is_written_next_to_a_table_that_is_not_moved(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    for table in as_earlier_versions_had_it(settings):
        with pytest.raises(LakehouseError, match="lockstep upgrade"), sole_writer(settings, table):
            pass


def test_a_table_that_this_version_made_before_the_upgrade_is_named(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    as_earlier_versions_had_it(settings)
    write_deltalake(settings.table_uri(PARITY_LEDGER), pa.table({"id": [3]}))
    with pytest.raises(LakehouseError, match="Move it out of the lakehouse"):
        upgrade.upgrade(settings)


def as_earlier_versions_had_it(settings: Settings) -> dict[str, str]:
    """Every table where it was before names were addresses, with Delta's id of each."""
    found = {}
    for table in LAKEHOUSE_TABLES:
        if (name := name_of_before(table)) is not None:
            uri = settings.table_uri(f"pizzeria/{name}")
            write_deltalake(uri, pa.table({"row_key": ["[1]"], "window_date": ["2026-01-01"]}))
            found[table] = generation_of(uri)
    return found


def test_a_home_of_this_version_stays_as_it_is(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    remember(settings, HISTORY, "of the source's history")
    assert upgrade.upgrade(settings) == []
    assert identity.read_remembered(settings, HISTORY) is not None


def test_a_history_that_was_rebuilt_already_is_left_alone(home: Settings) -> None:
    """After an upgrade that was broken off before it had removed the one of before."""
    shutil.rmtree(folder_of_before(home, HISTORY))
    remember(home, HISTORY, "of the source's history")
    upgrade.upgrade(home)
    assert identity.read_remembered(home, HISTORY).generation == "of the source's history"


@pytest.mark.parametrize("worker", [StreamMode.OUTBOX, HISTORY])
def test_nothing_moves_while_a_worker_runs(home: Settings, worker: str) -> None:
    """Of this version, or of an earlier one, whose leases are elsewhere."""
    folder_of_before(home, worker).mkdir(exist_ok=True)
    for acquire in (lease.acquire, lease.acquire_of_before):
        with acquire(home, worker), pytest.raises(StreamBusyError):
            upgrade.upgrade(home)
    assert DeltaTable.is_deltatable(home.table_uri(f"pizzeria/{HISTORY_OF_BEFORE}"))


@pytest.mark.parametrize(
    ("module", "name"), [(Path, "rename"), (Path, "unlink"), (shutil, "rmtree")]
)
def test_one_that_is_broken_off_is_done_again(
    home: Settings, monkeypatch: pytest.MonkeyPatch, module: object, name: str
) -> None:
    def killed(*_: object, **__: object) -> None:
        raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr(module, name, killed)
        with pytest.raises(InterruptedError):
            upgrade.upgrade(home)
    upgrade.upgrade(home)
    assert is_of_this_version(home)
