"""A home of an earlier version: what `lockstep upgrade` makes of it, killed anywhere or not."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.errors import StreamBusyError
from lockstep.model.modes import HISTORY, StreamMode
from lockstep.pizzeria import HISTORY_OF_BEFORE, SOURCE_HISTORY
from lockstep.settings import Settings
from lockstep.streams import identity, upgrade
from lockstep.streams.identity import StreamIdentity
from lockstep.supervise import lease

from tests.streams.topics import settings_of


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    """Its history has rows, an identity and a checkpoint location."""
    settings = settings_of(tmp_path)
    uri = settings.table_uri(HISTORY_OF_BEFORE)
    write_deltalake(uri, pa.table({"id": [1, 2]}))
    remember(settings, HISTORY, generation_of(uri))
    identity.checkpoint_location(settings, HISTORY).mkdir()
    return settings


def generation_of(uri: str) -> str:
    return str(DeltaTable(uri).metadata().id)


def remember(settings: Settings, mode: str, generation: str) -> None:
    one = StreamIdentity(7, "pizzeria", "lockstep", "first", generation)
    identity.remember(settings, mode, one)


def is_of_this_version(settings: Settings) -> bool:
    folder = Path(settings.table_uri(HISTORY_OF_BEFORE)).parent
    is_forgotten = identity.read_remembered(settings, HISTORY) is None
    return is_forgotten and [one.name for one in folder.iterdir() if "dimension" in one.name] == []


def test_the_history_of_before_goes_with_what_its_writer_remembers(home: Settings) -> None:
    (said,) = upgrade.upgrade(home)
    assert SOURCE_HISTORY in said
    assert is_of_this_version(home)
    assert not identity.checkpoint_location(home, HISTORY).exists()
    assert upgrade.upgrade(home) == []


def test_a_home_of_this_version_stays_as_it_is(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    remember(settings, HISTORY, "of the source's history")
    assert upgrade.upgrade(settings) == []
    assert identity.read_remembered(settings, HISTORY) is not None


def test_a_history_that_was_rebuilt_already_is_left_alone(home: Settings) -> None:
    """By `lockstep stream rebuild temporal` of this version, before the upgrade."""
    remember(home, HISTORY, "of the source's history")
    upgrade.upgrade(home)
    assert identity.read_remembered(home, HISTORY).generation == "of the source's history"
    assert identity.checkpoint_location(home, HISTORY).exists()


@pytest.mark.parametrize("worker", [StreamMode.OUTBOX, HISTORY])
def test_nothing_moves_while_a_worker_runs(home: Settings, worker: str) -> None:
    """A driver of an earlier version has the same leases."""
    with lease.acquire(home, worker), pytest.raises(StreamBusyError):
        upgrade.upgrade(home)
    assert DeltaTable.is_deltatable(home.table_uri(HISTORY_OF_BEFORE))


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
