"""What a rebuild leaves behind when all goes well, and when it dies; Spark's part is in e2e."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
from lockstep.errors import StreamError
from lockstep.settings import Settings
from lockstep.sinks.append_log import Reached, capture_id_of, reached_of
from lockstep.sources.delta import open_table, table_uris
from lockstep.streams import identity, rebuild
from lockstep.streams.errors import StreamIdentityMissingError
from lockstep.streams.identity import Capture, claim
from lockstep.streams.runner import Position
from lockstep.supervise.errors import StreamFailedError
from lockstep.supervise.folder import mode_folder

from tests.streams.conftest import MODE, Services, write_orders
from tests.streams.topics import open_log

OLD, NEW = range(3), range(5)


class Died(BaseException):
    """As a kill at this point would."""


@pytest.fixture
def stream(
    home: Settings, services: Services, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Settings]:
    """A stream that has written OLD; replaying the topic would give NEW."""
    monkeypatch.setattr(identity, "read_capture", services.capture)
    monkeypatch.setattr(
        rebuild, "stream_session", lambda *_, **__: SimpleNamespace(stop=lambda: None)
    )
    monkeypatch.setattr(rebuild, "_fill", fill)
    open_log(home, MODE)
    claim(home, MODE)
    write_orders(home, OLD, frontier=110)
    return home


def fill(
    _spark: object,
    settings: Settings,
    staging: Settings,
    _mode: str,
    capture: Capture,
    *_: object,
) -> SimpleNamespace:
    write_orders(staging, NEW, 120, capture.capture_id)
    (mode_folder(settings, MODE) / "checkpoint.rebuild").mkdir()
    return SimpleNamespace(finish=lambda: 120, stop=lambda: None)


def orders(settings: Settings) -> list[int]:
    table = open_table(open_log(settings, MODE).uri)
    return sorted(table.to_pyarrow_table()["order_id"].to_pylist())


def test_the_new_table_takes_the_old_ones_place(stream: Settings) -> None:
    made = rebuild.rebuild(stream, MODE)
    assert (made.rows, made.frontier) == (len(NEW), 120)
    assert orders(stream) == list(NEW)
    assert reached_of(open_table(open_log(stream, MODE).uri)).frontier == 120
    assert not (Path(stream.lakehouse) / ".rebuild").exists()
    assert list(table_uris(stream)) == ["orders_enriched__outbox"]
    claim(stream, MODE)


def test_a_new_topic_is_taken_as_the_streams_own(stream: Settings, services: Services) -> None:
    claimed = claim(stream, MODE)
    write_orders(stream, range(0), 112, claimed.capture_id)
    log = open_log(stream, MODE).uri
    assert capture_id_of(open_table(log)) == claimed.capture_id
    services.change(topic_id="second", database_system=8)
    rebuild.rebuild(stream, MODE)
    now = claim(stream, MODE)
    assert now.topic_id == "second"
    assert capture_id_of(open_table(log)) == now.capture_id != claimed.capture_id


def test_capture_with_a_gap_is_refused_and_nothing_is_touched(
    stream: Settings, services: Services
) -> None:
    services.change(has_mark=False)
    with pytest.raises(StreamError, match="lockstep capture reset"):
        rebuild.rebuild(stream, MODE)
    services.change()
    assert orders(stream) == list(OLD)
    claim(stream, MODE)


def test_capture_that_changes_meanwhile_is_refused(
    stream: Settings, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fill_and_change(*arguments: object) -> SimpleNamespace:
        services.change(topic_id="second")
        return fill(*arguments)

    monkeypatch.setattr(rebuild, "_fill", fill_and_change)
    with pytest.raises(StreamError, match="meanwhile"):
        rebuild.rebuild(stream, MODE)
    services.change()
    assert orders(stream) == list(OLD)
    claim(stream, MODE)


@pytest.mark.parametrize("point", ["_fill", "_require_same", "_switch"])
def test_dying_before_the_switch_leaves_the_old_stream_whole(stream: Settings, point: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        die_at(patch, rebuild, point)
        with pytest.raises(Died):
            rebuild.rebuild(stream, MODE)
    assert orders(stream) == list(OLD)
    claim(stream, MODE)


@pytest.mark.parametrize("module_and_point", [(rebuild, "switch_content"), (identity, "begin")])
def test_dying_within_the_switch_is_reported_and_corrected_by_rebuilding_again(
    stream: Settings, module_and_point: tuple
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        die_at(patch, *module_and_point)
        with pytest.raises(Died):
            rebuild.rebuild(stream, MODE)
    with pytest.raises(StreamIdentityMissingError):
        claim(stream, MODE)
    rebuild.rebuild(stream, MODE)
    assert orders(stream) == list(NEW)
    claim(stream, MODE)


def die_at(patch: pytest.MonkeyPatch, module: object, point: str) -> None:
    def die(*_: object, **__: object) -> None:
        raise Died

    patch.setattr(module, point, die)


def test_a_table_without_a_commit_is_not_filled() -> None:
    """The snapshot is at LSN 0: while it is being written the table has no frontier at all."""
    failures = iter([None, None, OSError("No space left on device")])
    writing_the_snapshot = SimpleNamespace(
        name=MODE,
        position=Position(9, 0, None),
        reached=Reached(None, 0),
        failure=lambda: next(failures),
    )
    with pytest.raises(StreamFailedError, match="cannot be rebuilt: No space left"):
        rebuild._wait_until_filled(writing_the_snapshot, 9, lambda *_: None)


def test_an_object_store_is_refused(stream: Settings) -> None:
    remote = stream.model_copy(update={"lakehouse": "s3a://bucket/lakehouse"})
    with pytest.raises(StreamError, match="no local folder"):
        rebuild.rebuild(remote, MODE)
