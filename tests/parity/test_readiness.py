"""When a window can be compared with a stream, and what is said when it cannot be yet."""

from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from lockstep.cdc.cuts import Cut
from lockstep.cdc.run_commits import RepairCommit, RunCommit
from lockstep.errors import LakehouseError, WindowNotWrittenError
from lockstep.model.modes import ReadMode
from lockstep.model.verdict import Verdict
from lockstep.parity.command import EXIT_CODES, worst
from lockstep.parity.readiness import Readiness, modes_with_tables, readiness
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.result_tables import HISTORY_PARTITION
from lockstep.pipeline.version import VERSION_OF_BEFORE
from lockstep.settings import Settings
from lockstep.sinks.append_log import AppendLog
from lockstep.streams.source_history import SCHEMA
from pizzeria.names import MANIFEST, ORDERS_ENRICHED_BATCH, SOURCE_HISTORY

from tests.parity.history import WINDOW
from tests.project import PROJECT_DIR
from tests.streams.topics import open_log

CUT_LSN = 5_000
CUT_AT = WINDOW.end + timedelta(minutes=5)
MODE = Mode.OUTBOX
PLAN = plan_named(PROJECT_DIR, MANIFEST)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """An hourly table that a run has written."""
    settings = Settings(home=tmp_path)
    run = RunCommit(WINDOW, ReadMode.VIEW, 0, Cut("the run", "700:700:", CUT_LSN, CUT_AT))
    write_deltalake(
        settings.table_uri(ORDERS_ENRICHED_BATCH),
        pa.table({"order_id": pa.array([], pa.int64())}),
        commit_properties=CommitProperties(custom_metadata={"userMetadata": run.as_json()}),
    )
    return settings


def look(
    settings: Settings,
    mode: Mode = MODE,
    *,
    stream: int = CUT_LSN,
    history: int = CUT_LSN,
    began: datetime | None = WINDOW.start,
) -> Readiness:
    """Readiness when stream and history have come so far."""
    log = open_log(settings, mode)
    log.append(log.schema.empty_table(), stream, 1)
    stored = AppendLog(
        settings.table_uri(SOURCE_HISTORY), SCHEMA, HISTORY_PARTITION, versions_kept_hours=1
    )
    first = {"table": "public.orders", "row_key": "[1]", "op": "c", "row": "{}", "commit_lsn": 0}
    rows = [] if began is None else [first | {"committed_at": began}]
    stored.append(pa.Table.from_pylist(rows, SCHEMA), history, 1)
    return readiness(settings, PLAN, WINDOW, mode)


def test_both_sides_past_the_cut_are_ready(
    settings: Settings,
) -> None:
    ready = look(settings)
    assert (ready.verdict, ready.reason) == (None, "")
    assert (ready.frontier, ready.run.cut.marker_lsn) == (CUT_LSN, CUT_LSN)
    assert modes_with_tables(settings, PLAN) == [MODE]


@pytest.mark.parametrize(
    ("state", "verdict", "words"),
    [
        ({"stream": CUT_LSN - 1}, Verdict.WAITING, "the stream has reached LSN 4999"),
        ({"history": CUT_LSN - 1}, Verdict.WAITING, "the source's history has reached"),
        ({"began": CUT_AT + timedelta(seconds=1)}, Verdict.NOT_COVERED, "run the window again"),
    ],
)
def test_what_stands_against_it_is_said(
    settings: Settings,
    state: dict,
    verdict: Verdict,
    words: str,
) -> None:
    ready = look(settings, **state)
    assert ready.verdict is verdict
    assert words in ready.reason


def raced(commit_lsn: int, wal_lsn: int | None, **other: object) -> dict:
    """A row that the look-up marked, of the window unless said otherwise."""
    row = {"order_id": 7, "order_time": WINDOW.start, "is_raced": True, "commit_lsn": commit_lsn}
    look_up = {"snapshot": "700:700:", "wal_lsn": wal_lsn}
    return row | {"look_up": look_up, "commit_date": WINDOW.start.date()} | other


LOOKED_UP_AT = CUT_LSN + 300


@pytest.mark.parametrize(
    ("stream", "history", "lagging"),
    [
        (LOOKED_UP_AT - 1, LOOKED_UP_AT, "the stream has reached LSN 5299"),
        (LOOKED_UP_AT, LOOKED_UP_AT - 1, "the source's history has reached LSN 5299"),
        (LOOKED_UP_AT, LOOKED_UP_AT, None),
    ],
)
def test_a_window_waits_until_both_tables_have_what_its_raced_look_ups_saw(
    settings: Settings,
    stream: int,
    history: int,
    lagging: str | None,
) -> None:
    log = open_log(settings, Mode.LOOKUP)
    rows = [raced(CUT_LSN - 10, LOOKED_UP_AT)]
    log.append(pa.Table.from_pylist(rows, log.schema), CUT_LSN - 10, 0)
    ready = look(settings, Mode.LOOKUP, stream=stream, history=history)
    if lagging is None:
        assert (ready.verdict, ready.reason) == (None, "")
    else:
        assert ready.verdict is Verdict.WAITING
        assert ready.reason == f"{lagging}, not yet the window's last raced look-up at 5300"


@pytest.mark.parametrize(
    "row",
    [
        raced(CUT_LSN + 10, CUT_LSN + 300),
        raced(CUT_LSN - 10, CUT_LSN + 300, is_raced=False),
        raced(CUT_LSN - 10, CUT_LSN + 300, order_time=WINDOW.end),
        raced(CUT_LSN - 10, None),
        raced(CUT_LSN - 10, None, look_up=None),
    ],
    ids=["after the cut", "not raced", "of another window", "no position", "no look-up kept"],
)
def test_a_look_up_that_is_not_judged_by_its_snapshot_is_not_waited_for(
    settings: Settings, row: dict
) -> None:
    log = open_log(settings, Mode.LOOKUP)
    log.append(pa.Table.from_pylist([row], log.schema), CUT_LSN - 10, 0)
    assert look(settings, Mode.LOOKUP).verdict is None


def test_an_order_that_was_gone_when_it_was_looked_up_is_waited_for(
    settings: Settings,
) -> None:
    log = open_log(settings, Mode.LOOKUP)
    rows = [raced(CUT_LSN - 10, CUT_LSN + 300, order_time=None)]
    log.append(pa.Table.from_pylist(rows, log.schema), CUT_LSN - 10, 0)
    assert look(settings, Mode.LOOKUP).verdict is Verdict.WAITING


def test_a_repaired_window_waits_for_the_repairs_marker(
    settings: Settings,
) -> None:
    cut = Cut("a repair", "800:800:", CUT_LSN + 500, CUT_AT + timedelta(hours=1))
    repair = RepairCommit(WINDOW, "the run", (7,), 1, "Ada", cut)
    write_deltalake(
        settings.table_uri(ORDERS_ENRICHED_BATCH),
        pa.table({"order_id": pa.array([7], pa.int64())}),
        mode="append",
        commit_properties=CommitProperties(custom_metadata={"userMetadata": repair.as_json()}),
    )
    early = look(settings)
    assert early.verdict is Verdict.WAITING
    assert "not yet the cut at 5500" in early.reason
    ready = look(settings, stream=CUT_LSN + 500, history=CUT_LSN + 500)
    assert (ready.verdict, ready.repairs) == (None, (repair,))
    assert ready.cuts_of_repaired() == {7: cut}


def test_a_stream_that_never_ran_and_a_window_that_was_not_written_are_errors(
    settings: Settings, tmp_path: Path
) -> None:
    assert modes_with_tables(settings, PLAN) == []
    with pytest.raises(LakehouseError, match="there is no Delta table"):
        readiness(settings, PLAN, WINDOW, MODE)
    other = type(WINDOW)(WINDOW.end, WINDOW.end + timedelta(hours=1))
    with pytest.raises(WindowNotWrittenError):
        readiness(settings, PLAN, other, MODE)


def test_the_worst_verdict_is_the_exit_code() -> None:
    verdicts = list(Verdict)
    assert [EXIT_CODES[verdict] for verdict in verdicts] == [0, 1, 3, 2]
    assert worst(verdicts) is Verdict.FAIL
    assert worst([Verdict.PASS, Verdict.WAITING]) is Verdict.WAITING
    assert worst([Verdict.WAITING, Verdict.NOT_COVERED]) is Verdict.NOT_COVERED
    assert worst([Verdict.PASS]) is Verdict.PASS


def test_a_run_or_a_stream_of_another_version_of_the_pipeline_is_not_covered(
    settings: Settings,
) -> None:
    """Neither says a version here, so that both are of the one of before versions."""
    assert look(settings).verdict is None
    another = replace(PLAN, query=replace(PLAN.query, key=("another",)))
    edited = readiness(settings, another, WINDOW, MODE)
    assert edited.verdict is Verdict.NOT_COVERED
    assert f"version {VERSION_OF_BEFORE}" in edited.reason
    assert "run the window again" in edited.reason


def test_a_streams_table_of_another_version_is_named_with_what_to_do(
    settings: Settings,
) -> None:
    DeltaTable(open_log(settings, MODE).uri).alter.set_table_description("another")
    other = look(settings)
    assert other.verdict is Verdict.NOT_COVERED
    assert "lockstep stream rebuild" in other.reason
