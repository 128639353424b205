"""When a window of a pipeline can be compared, what is said when not, and what is printed."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from lockstep.cli import app
from lockstep.errors import LakehouseError, WindowNotWrittenError
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.parity.cause import Change
from lockstep.parity.pipeline_comparison import Comparison, Difference, StreamChange, failing
from lockstep.parity.pipeline_readiness import PipelineReadiness, pipeline_readiness
from lockstep.parity.pipeline_report import print_comparison
from lockstep.parity.versions import Version
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan
from rich.console import Console
from typer.testing import CliRunner, Result

from tests.plant.history import MARKER_LSN, WINDOW, Works
from tests.plant.planned import FACT, NAMES, SENSOR
from tests.plant.project import MANIFEST, QUERY
from tests.plant.tables import MODE, TAKEN_AT, Tables, plan_by_number

SEED = 7


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    """Of a short history, not written yet. The project's folder is the home."""
    print(f"seed {SEED}")  # noqa: T201 - shown when a test fails
    works = Works(SEED)
    works.work(20)
    return Tables(works.cut(), plan_by_number(tmp_path), tmp_path)


def ready(tables: Tables, plan: Plan | None = None) -> PipelineReadiness:
    return pipeline_readiness(tables.settings, plan or tables.plan, MODE, WINDOW)


def test_tables_that_have_passed_the_cut_are_ready(tables: Tables) -> None:
    tables.write()
    found = ready(tables)
    assert (found.verdict, found.reason, found.frontier) == (None, "", MARKER_LSN)
    assert found.run.cut.snapshot == tables.of.snapshot


@pytest.mark.parametrize(
    ("reached", "which"),
    [
        ({"reached": MARKER_LSN - 1}, "the stream"),
        ({"history_reached": MARKER_LSN - 1}, "the source's history"),
    ],
)
def test_a_window_waits_for_both_to_pass_the_cut(
    tables: Tables, reached: dict[str, int], which: str
) -> None:
    tables.write(**reached)
    found = ready(tables)
    assert found.verdict is Verdict.WAITING
    assert found.reason == (
        f"{which} has reached LSN {MARKER_LSN - 1}, not yet the cut at LSN {MARKER_LSN}"
    )


def test_a_run_from_before_the_initial_snapshot_is_not_covered(tables: Tables) -> None:
    for row in tables.history:
        if row["tx_id"] is None:
            row["committed_at"] = TAKEN_AT + timedelta(seconds=1)
    tables.write()
    found = ready(tables)
    assert found.verdict is Verdict.NOT_COVERED
    assert "before change capture took its snapshot" in found.reason


def test_rows_of_another_version_of_the_pipeline_are_not_covered(
    tables: Tables, tmp_path: Path
) -> None:
    """First both are of another version than the folder, then the stream's table alone."""
    tables.write()
    changed = plan_by_number(tmp_path, query=QUERY.template.replace("18, 6", "19, 6"))
    found = ready(tables, changed)
    assert found.verdict is Verdict.NOT_COVERED
    assert f"the hourly run is of version {tables.plan.version}" in found.reason
    assert f"folder of version {changed.version}: run the window again" in found.reason
    tables.plan = changed
    tables.write_hourly(mode="overwrite")
    assert f"the stream's table is of version {changed.version}" not in ready(tables).reason
    assert "the stream's table is of version" in ready(tables).reason


def test_what_is_not_there_is_an_error_before_spark_starts(tables: Tables, tmp_path: Path) -> None:
    with pytest.raises(LakehouseError, match="there is no Delta table"):
        ready(tables)
    tables.write()
    later = Window(WINDOW.end, WINDOW.end + timedelta(hours=1))
    with pytest.raises(WindowNotWrittenError):
        pipeline_readiness(tables.settings, tables.plan, MODE, later)
    with pytest.raises(PipelineError, match="has no mode lookup: its modes are temporal; name it"):
        pipeline_readiness(tables.settings, tables.plan, Mode.LOOKUP, WINDOW)
    manifest = MANIFEST.template.replace('time = "$measured_at"\n', "")
    without_time = plan_by_number(tmp_path, manifest=manifest)
    with pytest.raises(PipelineError, match="has no `time`"):
        ready(tables, without_time)


def test_what_a_mode_is_not_to_differ_by_fails_a_window(tables: Tables) -> None:
    """The manifest tolerates the drift of one mode."""
    counts = dict.fromkeys(DifferenceClass, 3)
    wrong = failing(tables.plan, MODE, counts)
    assert counts.keys() - wrong.keys() == {
        DifferenceClass.DIMENSION_DRIFT,
        DifferenceClass.CHANGED_AFTER_CUT,
    }
    assert DifferenceClass.DIMENSION_DRIFT in failing(tables.plan, Mode.TRANSACTION, counts)


@pytest.fixture
def compare(tables: Tables, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """The command, in the folder of the tables."""
    home = str(tables.settings.home)
    monkeypatch.setenv("LOCKSTEP_PROJECT", home)
    monkeypatch.setenv("LOCKSTEP_HOME", home)
    monkeypatch.setenv("LOCKSTEP_JARS_DIR", str(Path(__file__).parents[2] / ".jars"))
    monkeypatch.setenv("COLUMNS", "100")

    def run(name: str = NAMES.pipeline) -> Result:
        bounds = (WINDOW.start.isoformat(), WINDOW.end.isoformat())
        return CliRunner().invoke(app, ["pipeline", "compare", name, MODE, *bounds])

    return run


def test_the_command_exits_with_3_while_a_window_waits(
    tables: Tables, compare: Callable[..., Result]
) -> None:
    tables.write(reached=1)
    shown = compare()
    assert (shown.exit_code, shown.exception and str(shown.exception)) == (3, "3")
    assert "waiting" in shown.stdout
    assert "not yet the cut" in " ".join(shown.stdout.split())


def test_the_command_names_the_pipelines_that_there_are(compare: Callable[..., Result]) -> None:
    shown = compare("other")
    assert isinstance(shown.exception, PipelineError)
    assert f"there are: {NAMES.pipeline}" in str(shown.exception)


KEY = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"
AT = datetime(2024, 5, 1, 12, 30, tzinfo=UTC)
CHANGE = StreamChange((KEY, AT, "old [b]", None, 1), "u", 1007, 50_000_000, AT)
DRIFT = Difference(
    kind=DifferenceClass.DIMENSION_DRIFT,
    key=(KEY,),
    row_key=f'["{KEY}"]',
    batch=(KEY, AT, "new", None, 1),
    stream=CHANGE,
    after_cut=None,
    batch_rows=1,
    repeated_changes=0,
    columns=(NAMES.sensor_name,),
    in_source=Version((), 1007, 50_000_000, AT),
    causes={
        NAMES.sensor_name: (
            Change(
                table=SENSOR.name,
                row_key=f'["{KEY}"]',
                op="u",
                tx_id=2008,
                commit_lsn=60_000_000,
                committed_at=AT,
                is_in_cut=True,
                columns={NAMES.name: ("old [b]", "new")},
            ),
        )
    },
    by_query=((KEY, AT, "old [b]", None, 1), (KEY, AT, "new", None, 1)),
)
OTHERS = {
    DifferenceClass.DUPLICATE_IN_STREAM: {"repeated_changes": 2},
    DifferenceClass.MISSING_IN_STREAM: {"stream": None},
    DifferenceClass.MISSING_IN_BATCH: {"batch": None, "batch_rows": 0},
    DifferenceClass.VALUE_MISMATCH: {"by_query": (None, DRIFT.batch)},
    DifferenceClass.CHANGED_AFTER_CUT: {"after_cut": replace(CHANGE, op="d", tx_id=3009)},
}
SAID = {
    DifferenceClass.DUPLICATE_IN_STREAM: "2 of its changes are there again",
    DifferenceClass.MISSING_IN_STREAM: "written by transaction 1007 (LSN 50000000)",
    DifferenceClass.MISSING_IN_BATCH: "the cut sees it updated by transaction 1007",
    DifferenceClass.DIMENSION_DRIFT: f"{NAMES.name} old [b] → new by transaction 2008",
    DifferenceClass.VALUE_MISMATCH: "the query gives new at the cut | no single row",
    DifferenceClass.CHANGED_AFTER_CUT: "it deleted by transaction 3009",
}


def printed(plan: Plan, found: Comparison) -> str:
    console = Console(width=100, highlight=False, record=True, quiet=False)
    with console.capture() as capture:
        print_comparison(console, plan, MODE, WINDOW, found)
    return capture.get()


def cells(text: str) -> str:
    """The words of the last column, one after the other."""
    last = [line.split("│")[-2].strip() for line in text.splitlines() if line.count("│") == 4]
    return " ".join(last)


@pytest.mark.parametrize("kind", SAID)
def test_each_class_is_printed_with_its_evidence_in_a_hundred_columns(
    tables: Tables, kind: DifferenceClass
) -> None:
    difference = replace(DRIFT, kind=kind, **OTHERS.get(kind, {}))
    if kind not in (DifferenceClass.DIMENSION_DRIFT, DifferenceClass.VALUE_MISMATCH):
        difference = replace(difference, columns=())
    found = Comparison(Verdict.FAIL, "a reason", 5, {kind: 1}, 0, (difference,))
    text = printed(tables.plan, found)
    assert max(map(len, text.splitlines())) <= 100
    assert kind in text
    assert SAID[kind] in cells(text)
    assert "fails by: a reason" in text
    assert str(FACT.name) not in cells(text)


def test_twenty_rows_are_shown_and_the_others_counted(tables: Tables) -> None:
    kind = DifferenceClass.VALUE_MISMATCH
    mismatch = replace(DRIFT, kind=kind)
    text = printed(
        tables.plan,
        Comparison(
            Verdict.FAIL, "1,234 value_mismatch", 9_999, {kind: 1_234}, 234, (mismatch,) * 30
        ),
    )
    assert (
        sum(kind in line.split("│")[1] for line in text.splitlines() if line.count("│") == 4) == 20
    )
    assert "and 1,214 more" in text
    assert "234 of value_mismatch were not looked into" in " ".join(text.split())
    assert "9,999" in text


def test_a_window_that_agrees_is_one_row(tables: Tables) -> None:
    text = printed(tables.plan, Comparison(Verdict.PASS, "", 12))
    assert "pass" in text
    assert "because" not in text
