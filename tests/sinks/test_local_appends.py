"""Appends made without delta-rs give way to what they must, and leave all or nothing."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.errors import LakehouseError
from lockstep.sinks import local_files
from lockstep.sinks.append_log import Reached, reached_of
from lockstep.sinks.local_appends import LocalAppends

from tests.sinks.local_tables import (
    SCHEMA,
    delete_rows,
    log_at,
    mark,
    numbers,
    set_property,
    small,
)


@pytest.mark.parametrize("error", [OSError(errno.EIO, "lost"), KeyboardInterrupt()])
def test_files_of_a_commit_that_was_made_stay_whatever_breaks_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    log = log_at(tmp_path / "log")
    log.append(small(1), 1, 1)
    link = os.link

    def made_and_lost(*paths: Path) -> None:
        link(*paths)
        raise error

    monkeypatch.setattr(os, "link", made_and_lost)
    with nullcontext() if isinstance(error, OSError) else pytest.raises(KeyboardInterrupt):
        log.append(small(2), 2, 2)
    assert numbers(log) == [1, 2]


def test_a_second_writer_of_the_same_rows_is_noticed(tmp_path: Path) -> None:
    """Which the writer's lock prevents, unless the folder is shared by machines."""
    one, other = (log_at(tmp_path / "log") for _ in range(2))
    one.append(small(1), 1, 1)
    with pytest.raises(LakehouseError, match="another process writes"):
        other.append(small(1), 1, 1)
    assert numbers(one) == [1]


def test_what_a_killed_writer_left_in_the_log_goes(tmp_path: Path) -> None:
    log = log_at(tmp_path / "log")
    left = Path(log.uri, "_delta_log", "_commit_0.json.tmp")
    left.touch()
    log_at(tmp_path / "log")
    assert not left.exists()


@pytest.mark.parametrize("change", [set_property, delete_rows, mark])
def test_after_another_commit_than_a_compaction_delta_rs_decides_once(
    tmp_path: Path, engines: list[bool], change: Callable[[str], None]
) -> None:
    log = log_at(tmp_path / "log")
    log.append(small(1, 2), 1, 1)
    change(log.uri)
    before = numbers(log)
    log.append(small(3), 2, 2)
    log.append(small(4), 3, 3)
    assert engines == [True, False, True]
    assert numbers(log) == sorted([*before, 3, 4])
    assert len(DeltaTable(log.uri).file_uris()) == len(list(Path(log.uri).glob("part=a/*"))) - (
        change is delete_rows  # the file whose rows it wrote into another
    )
    assert reached_of(DeltaTable(log.uri)) == Reached(3, 3)


def test_rows_are_replaced_and_properties_set_between_appends(
    tmp_path: Path, engines: list[bool]
) -> None:
    log = log_at(tmp_path / "log")
    log.append(small(1), 1, 1)
    log.replace(["a"], pa.RecordBatchReader.from_batches(SCHEMA, small(7).to_batches()))
    log.append(small(2), 2, 2)
    log.set_property("lockstep.x", "y")
    log.append(small(3), 3, 3)
    log.add(small(4))
    log.append(small(5), 4, 4)
    log.append_stream(iter(small(6).to_batches()), 5, 5)
    log.append(small(8), 6, 6)
    assert engines == [True] * 5
    assert numbers(log) == [2, 3, 4, 5, 6, 7, 8]
    assert log.properties["lockstep.x"] == "y"


def test_a_table_with_a_feature_for_writers_is_written_by_delta_rs(tmp_path: Path) -> None:
    DeltaTable.create(
        tmp_path / "log",
        SCHEMA,
        partition_by=["part"],
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    table = DeltaTable(tmp_path / "log")
    assert LocalAppends.to(tmp_path / "log", table, "part") is None
    log = log_at(tmp_path / "log")
    log.append(small(1), 1, 1)
    assert "delta-rs" in DeltaTable(log.uri).history(1)[0]["engineInfo"]


def test_a_writer_whose_newest_entry_is_gone_does_not_use_its_number_again(
    tmp_path: Path, engines: list[bool]
) -> None:
    """The next could have been there, and be gone, too."""
    log = log_at(tmp_path / "log")
    log.append(small(1), 1, 1)
    for number in range(2, 5):
        write_deltalake(log.uri, small(number), mode="append")
    DeltaTable(log.uri).create_checkpoint()
    for version in range(4):
        Path(log.uri, "_delta_log", f"{version:020}.json").unlink()
    log.append(small(5), 2, 2)
    assert engines == [True, False]
    assert numbers(log) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("place", ["write", "link"])
def test_a_full_disk_leaves_the_table_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    log = log_at(tmp_path / "log")
    log.append(small(1), 1, 1)

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = sorted(Path(log.uri).rglob("*"))
    with monkeypatch.context() as patched:
        owner = local_files.pq.ParquetWriter if place == "write" else os
        patched.setattr(owner, "write_table" if place == "write" else place, full)
        with pytest.raises(LakehouseError, match="No space left"):
            log.append(small(2), 2, 2)
    assert sorted(Path(log.uri).rglob("*")) == before
    assert log.reached == Reached(1, 1)
    log.append(small(2), 2, 2)
    assert numbers(log) == [1, 2]


DYING = """
import os, signal, sys
import pyarrow as pa
from tests.sinks.local_tables import Path, log_at, small

def die(*_, **__):
    os.kill(os.getpid(), signal.SIGKILL)

log = log_at(Path(sys.argv[1]))
if sys.argv[2] == "before":
    os.link = die
else:
    Path.unlink = die
log.append(small(2, 3, part="b"), 2, 2)
"""


@pytest.mark.parametrize(("moment", "found"), [("before", [1]), ("after", [1, 2, 3])])
def test_a_killed_writer_leaves_all_or_nothing(
    tmp_path: Path, moment: str, found: list[int]
) -> None:
    log = log_at(tmp_path / "log")
    log.append(small(1), 1, 1)
    killed = subprocess.run(
        [sys.executable, "-c", DYING, log.uri, moment], cwd=Path(__file__).parents[2], check=False
    )
    assert killed.returncode == -9
    assert numbers(log) == found
    again = log_at(tmp_path / "log")
    assert again.reached == Reached(len(found) // 3 + 1, len(found) // 3 + 1)
    again.append(small(4), 3, 3)
    assert numbers(log) == [*found, 4]
