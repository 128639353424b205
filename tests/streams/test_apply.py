"""What an edited folder asks of the tables, by what they say of themselves; Spark's part is e2e."""

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from lockstep.errors import LakehouseError
from lockstep.model.modes import StreamMode
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.result_tables import HOURLY_PARTITION
from lockstep.settings import Settings
from lockstep.sinks import hourly_table
from lockstep.streams import apply
from lockstep.streams.apply import Hourly, Pending, pending
from lockstep.streams.identity import claim, identity_path
from lockstep.streams.rebuild import Rebuilt
from lockstep.supervise import lease
from lockstep.supervise.desired import DesiredState, write_desired

from tests.streams.conftest import MODE, Services, write_orders
from tests.streams.topics import PLAN, open_log

NOTHING = Pending((), (), (), (), Hourly.AS_IT_IS)


def of_before(settings: Settings, *modes: Mode) -> None:
    """The modes' change logs, of another version of the pipeline."""
    for mode in modes:
        log = DeltaTable(open_log(settings, mode).uri)
        log.alter.set_table_description("another")


def write_hourly(settings: Settings, columns: dict[str, str]) -> DeltaTable:
    uri = settings.table_uri(PLAN.hourly_table)
    row = pa.table(
        {name: pa.nulls(1, field.type) for name, field in _fields(columns)},
        schema=arrow_schema(columns),
    )
    write_deltalake(uri, row, partition_by=[HOURLY_PARTITION])
    return DeltaTable(uri)


def _fields(columns: dict[str, str]) -> list[tuple[str, pa.Field]]:
    return [(field.name, field) for field in arrow_schema(columns)]


def test_tables_of_this_version_and_those_that_are_not_there_need_nothing(home: Settings) -> None:
    assert pending(home, PLAN) == NOTHING
    open_log(home, Mode.TEMPORAL)
    write_hourly(home, hourly_table.columns_of(PLAN, PLAN.result.columns))
    assert pending(home, PLAN) == NOTHING
    assert not NOTHING


def test_what_was_published_goes_on_and_the_rest_is_made_again(home: Settings) -> None:
    of_before(home, Mode.OUTBOX, Mode.TEMPORAL, Mode.LOOKUP)
    open_log(home, Mode.MESSAGE)
    with lease.acquire(home, Mode.TEMPORAL), lease.acquire(home, Mode.MESSAGE):
        found = pending(home, PLAN)
    expected = Pending(
        (Mode.LOOKUP, Mode.TEMPORAL), (Mode.OUTBOX,), (Mode.TEMPORAL,), (), Hourly.AS_IT_IS
    )
    assert found == expected
    assert found


def test_a_stream_that_an_apply_has_stopped_runs_again_at_the_next(home: Settings) -> None:
    """So does one that waits for its restart. One that a person stopped does not."""
    for mode in (Mode.LOOKUP, Mode.TEMPORAL, Mode.TRANSACTION, Mode.OUTBOX):
        open_log(home, mode)
    of_before(home, Mode.TEMPORAL, Mode.TRANSACTION)
    write_desired(home, Mode.LOOKUP, DesiredState.STOPPED, apply.STOPPED_BY_IT)
    write_desired(home, Mode.TEMPORAL, DesiredState.RUNNING, "a DAG")
    write_desired(home, Mode.TRANSACTION, DesiredState.STOPPED, "a person")
    write_desired(home, Mode.OUTBOX, DesiredState.RUNNING, "a DAG")
    found = pending(home, PLAN)
    assert (found.rebuilt, found.running) == (
        (Mode.TEMPORAL, Mode.TRANSACTION),
        (Mode.LOOKUP, Mode.TEMPORAL),
    )


def test_a_table_that_was_switched_and_has_no_identity_is_made_again(
    home: Settings, services: Services
) -> None:
    open_log(home, MODE)
    claim(home, MODE)
    write_orders(home, range(3), frontier=110)
    assert pending(home, PLAN) == NOTHING
    identity_path(home, MODE).unlink()
    assert pending(home, PLAN).continued == (MODE,)


def test_a_stream_of_a_mode_that_the_manifest_has_no_more_is_stopped(home: Settings) -> None:
    manifest = PLAN.manifest.model_copy(update={"modes": (Mode.OUTBOX,)})
    with lease.acquire(home, Mode.TEMPORAL), lease.acquire(home, Mode.OUTBOX):
        assert pending(home, replace(PLAN, manifest=manifest)).removed == (Mode.TEMPORAL,)


def test_an_hourly_table_that_lacks_what_the_next_run_adds_is_left_alone(home: Settings) -> None:
    columns = hourly_table.columns_of(PLAN, PLAN.result.columns)
    write_hourly(home, {name: kind for name, kind in columns.items() if name != "origin"})
    assert pending(home, PLAN).hourly is Hourly.AS_IT_IS


def test_an_hourly_table_of_an_earlier_version_is_upgraded_first_and_not_emptied(
    home: Settings,
) -> None:
    columns = {"order_id": "int", "order_date": "date", "order_hour": "int"}
    uri = home.table_uri(PLAN.hourly_table)
    write_deltalake(
        uri, arrow_schema(columns).empty_table(), partition_by=["order_date", "order_hour"]
    )
    with pytest.raises(LakehouseError, match="`lockstep upgrade`"):
        pending(home, PLAN)


@pytest.mark.parametrize("change", [{"client": "bigint"}, {"more": "string"}])
def test_an_hourly_table_of_other_columns_is_emptied_in_one_commit(
    home: Settings, monkeypatch: pytest.MonkeyPatch, change: dict[str, str]
) -> None:
    columns = hourly_table.columns_of(PLAN, PLAN.result.columns)
    old = write_hourly(home, columns | change)
    found = pending(home, PLAN)
    assert found == replace(NOTHING, hourly=Hourly.COLUMNS)
    apply.apply(home, PLAN, found)
    new = DeltaTable(old.table_uri)
    assert (new.version(), new.count()) == (old.version() + 1, 0)
    assert hourly_table._layout(new) == (columns, [HOURLY_PARTITION])
    assert DeltaTable(old.table_uri, version=old.version()).count() == 1
    assert pending(home, PLAN) == NOTHING


def test_each_stream_that_ran_runs_again_with_its_new_table(
    home: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []

    def made(_: Settings, mode: StreamMode, *_rest: object) -> Rebuilt:
        done.append(("made", str(mode)))
        return Rebuilt(mode, 1, 2)

    monkeypatch.setattr(apply, "rebuild", made)
    monkeypatch.setattr(apply, "begin_where_it_ended", made)
    running: set[str] = set()

    def start(_: Settings, modes: list[str], _reason: str) -> None:
        done.append(("started", *modes))
        running.update(modes)

    monkeypatch.setattr(apply.source_driver, "start", start)
    monkeypatch.setattr(apply.lease, "holder", lambda _, mode: 1 if mode in running else None)
    what = Pending(
        (Mode.TEMPORAL,),
        (Mode.OUTBOX, Mode.MESSAGE),
        (Mode.LOOKUP, Mode.TEMPORAL, Mode.MESSAGE),
        (),
        Hourly.RUNS,
    )
    apply.apply(home, PLAN, what)
    assert done == [
        ("made", "temporal"),
        ("started", "temporal"),
        ("made", "outbox"),
        ("made", "message"),
        ("started", "message"),
        ("started", "lookup"),
    ]
