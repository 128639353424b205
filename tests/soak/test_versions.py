"""Every version of a change log holds a prefix of the history, and the watched total."""

from pathlib import Path

import pytest
from deltalake import DeltaTable
from lockstep.errors import LakehouseError
from lockstep.model.modes import StreamMode
from lockstep.settings import Settings
from lockstep_tools.soak.versions import VersionFollower, check_versions
from pizzeria.names import change_log_table

from tests.soak.change_log_tables import append, change, settings_of

MODE = StreamMode.TEMPORAL
TABLE = change_log_table(MODE)
TWO, THREE, FIVE = ["1.00"] * 2, ["1.00"] * 3, ["1.00"] * 5
OPENED = (change(1, 10, TWO, op="c"), change(2, 10, THREE, op="c"))


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = settings_of(tmp_path)
    append(settings, MODE, 5, change(99, 5))
    append(settings, MODE, 10, *OPENED)
    return settings


def follower(settings: Settings) -> VersionFollower:
    folder = settings.table_uri(TABLE)
    return VersionFollower(Path(folder), watched={1, 2})


def found(settings: Settings) -> str:
    return " ".join(map(str, check_versions(follower(settings), MODE, total=5)))


def test_pizzas_that_move_whole_transactions_are_constant_in_every_version(
    settings: Settings,
) -> None:
    append(settings, MODE, 20, change(1, 20, THREE), change(2, 20, TWO))
    append(settings, MODE, 30, change(1, 30, op="d"), change(2, 30, FIVE))
    append(settings, MODE, 35)
    append(settings, MODE, 40, change(1, 40, TWO, op="c"), change(2, 40, THREE))
    assert found(settings) == ""


def test_half_a_transaction_is_found_though_the_next_version_completes_it(
    settings: Settings,
) -> None:
    append(settings, MODE, 20, change(1, 20, THREE))
    append(settings, MODE, 20, change(2, 20, TWO))
    assert "version 2: 6 pizzas" in found(settings)
    assert "order 2 at 20 is not in (20, 20]" in found(settings)


def test_a_transaction_before_an_earlier_one_is_found(settings: Settings) -> None:
    append(settings, MODE, 30, change(1, 30, THREE), change(2, 30, TWO))
    append(settings, MODE, 40, change(1, 25, FIVE), change(2, 25, []))
    assert "order 1 at 25 is not in (30, 40]" in found(settings)


def test_a_change_beyond_its_commits_frontier_is_found(settings: Settings) -> None:
    append(settings, MODE, 20, change(1, 21, THREE), change(2, 21, TWO))
    assert "is not in (10, 20]" in found(settings)


def test_a_frontier_that_goes_back_is_found(settings: Settings) -> None:
    append(settings, MODE, 9)
    assert "the frontier went back from 10 to 9" in found(settings)


def test_the_snapshots_rows_come_first_and_only_first(settings: Settings, tmp_path: Path) -> None:
    started = settings_of(tmp_path / "started")
    append(started, MODE, 0, change(1, 0, TWO), change(2, 0, THREE))
    append(started, MODE, 20, change(1, 20, THREE), change(2, 20, TWO))
    assert found(started) == ""
    append(started, MODE, 30, change(1, 0, THREE), change(2, 30, TWO))
    assert "order 1 at 0 is not in (20, 30]" in found(started)


def test_a_compaction_changes_nothing(settings: Settings) -> None:
    append(settings, MODE, 20, change(1, 20, THREE), change(2, 20, TWO))
    table = DeltaTable(settings.table_uri(TABLE))
    assert table.optimize.compact()["numFilesRemoved"] == 3
    append(settings, MODE, 30, change(1, 30, TWO), change(2, 30, THREE))
    assert found(settings) == ""


def test_a_compaction_that_changes_a_row_is_found(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lockstep_tools.soak import delta_log

    follow = follower(settings)
    assert check_versions(follow, MODE, total=5) == []
    DeltaTable(settings.table_uri(TABLE)).optimize.compact()
    read_rows = delta_log.read_rows
    monkeypatch.setattr(delta_log, "read_rows", lambda *args: read_rows(*args).slice(1))
    (finding,) = check_versions(follow, MODE, total=5)
    assert "3 rows became 2" in finding.examples[0]


def test_files_removed_for_good_are_found(settings: Settings) -> None:
    DeltaTable(settings.table_uri(TABLE)).delete("order_id = 2")
    assert "files of an append-only table were removed" in found(settings)


def test_a_follower_goes_on_where_it_was(settings: Settings) -> None:
    follow = follower(settings)
    assert [version.number for version in follow.advance()] == [0, 1]
    assert list(follow.advance()) == []
    append(settings, MODE, 20, change(1, 20, THREE))
    assert [(version.number, version.pizzas) for version in follow.advance()] == [(2, 6)]


def test_commits_cleaned_up_unread_are_reported(settings: Settings) -> None:
    folder = Path(settings.table_uri(TABLE))
    follow = follower(settings)
    list(follow.advance())
    append(settings, MODE, 20, change(1, 20, THREE), change(2, 20, TWO))
    append(settings, MODE, 30, change(1, 30, TWO), change(2, 30, THREE))
    for version in range(3):
        (folder / "_delta_log" / f"{version:020}.json").unlink()
    (finding,) = check_versions(follow, MODE, total=5)
    assert finding.examples == ("version 3: commits 2 to 2 are gone unread",)


def test_a_follower_that_comes_late_begins_with_what_is_there(settings: Settings) -> None:
    folder = Path(settings.table_uri(TABLE))
    DeltaTable(str(folder)).create_checkpoint()
    (folder / "_delta_log" / f"{0:020}.json").unlink()
    DeltaTable(str(folder)).optimize.compact()
    assert found(settings) == ""


def test_orders_watched_later_are_counted_from_then_on(settings: Settings) -> None:
    follow = follower(settings)
    list(follow.advance())
    follow.watch({7, 8})
    append(settings, MODE, 20, change(1, 20, FIVE))
    append(settings, MODE, 30, change(7, 30, TWO), change(8, 30, THREE))
    append(settings, MODE, 40, change(7, 40, []))
    (finding,) = check_versions(follow, MODE, total=5)
    assert finding.examples == ("version 4: 3 pizzas",)


def test_files_vacuumed_unread_are_reported(settings: Settings) -> None:
    folder = Path(settings.table_uri(TABLE))
    next(folder.glob("*/*.parquet")).unlink()
    with pytest.raises(LakehouseError, match="check more often"):
        found(settings)
