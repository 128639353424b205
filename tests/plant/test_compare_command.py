"""When a window of a pipeline can be compared, and what is said when not."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from lockstep.cli import app
from lockstep.errors import LakehouseError, WindowNotWrittenError
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.parity.policy import Policy
from lockstep.parity.readiness import Readiness, readiness
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.plan import Plan
from typer.testing import CliRunner, Result

from tests.plant.history import MARKER_LSN, WINDOW, Works
from tests.plant.planned import NAMES
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


def ready(tables: Tables, plan: Plan | None = None) -> Readiness:
    return readiness(tables.settings, plan or tables.plan, WINDOW, MODE)


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
        f"{which} has reached LSN {MARKER_LSN - 1}, not yet the cut at {MARKER_LSN}"
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
    assert f"folder is of version {changed.version}: run the window again" in found.reason
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
        readiness(tables.settings, tables.plan, later, MODE)
    with pytest.raises(PipelineError, match="has no mode lookup: its modes are temporal, "):
        readiness(tables.settings, tables.plan, WINDOW, Mode.LOOKUP)
    manifest = MANIFEST.template.replace('time = "$measured_at"\n', "")
    without_time = plan_by_number(tmp_path, manifest=manifest)
    with pytest.raises(PipelineError, match="has no `time`"):
        ready(tables, without_time)


def test_what_a_mode_is_not_to_differ_by_fails_a_window(tables: Tables) -> None:
    """The manifest tolerates the drift of some modes."""
    counts = dict.fromkeys(DifferenceClass, 3)
    policy = Policy(tables.plan.manifest.tolerate)
    wrong = policy.failing(MODE, counts, 9)
    assert counts.keys() - wrong.keys() == {
        DifferenceClass.DIMENSION_DRIFT,
        DifferenceClass.CHANGED_AFTER_CUT,
    }
    assert DifferenceClass.DIMENSION_DRIFT in policy.failing(Mode.OUTBOX, counts, 9)


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
