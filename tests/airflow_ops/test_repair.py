"""A repair in Airflow: shown to a person, merged as approved, and compared again."""

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk.exceptions import (
    AirflowException,
    AirflowFailException,
    AirflowSkipException,
)
from lockstep.airflow_ops import repair
from lockstep.errors import WindowNotWrittenError, WriterBusyError
from lockstep.model.window import Window
from lockstep.pipeline.plan import plan_named
from lockstep.repair import plan as planning
from lockstep.repair import run as repairing
from lockstep.repair.changed_rows import ChangedRow, How
from lockstep.repair.errors import RepairRefusedError
from lockstep.repair.plan import RepairPlan
from lockstep.sources.errors import PostgresUnavailableError
from pizzeria import names as pizzeria

from tests.airflow_ops.made_dags import dags_of
from tests.project import PROJECT_DIR

BOUNDS = ("2024-05-01T12:00:00+00:00", "2024-05-01T13:00:00+00:00")
WINDOW = Window.parse(*BOUNDS)
BEFORE = {
    "order_time": datetime(2024, 5, 1, 12, 30, tzinfo=UTC),
    "client_name": "Ada | [x](javascript:1) <b>",
    "table_name": None,
    "pizzas": [{"pizza": "Funghi", "price": "9.50"}],
}
KEYS = plan_named(PROJECT_DIR, pizzeria.MANIFEST).row_keys
CANCELLED = ChangedRow("[17]", How.CANCELLED, BEFORE, None)


@pytest.fixture
def dag():
    return dags_of()[pizzeria.REPAIR_DAG_ID]


@pytest.fixture
def plans(monkeypatch):
    """Let the plan of the window be this, or raise it."""

    def come_to(outcome):
        def plan_repair(_, window):
            assert window == WINDOW
            if isinstance(outcome, Exception):
                raise outcome
            return RepairPlan(window, "a run", outcome, 40, 6, KEYS)

        monkeypatch.setattr(planning, "plan_repair", plan_repair)

    return come_to


def test_a_person_approves_between_plan_and_merge_within_a_day(dag):
    approve = dag.get_task("approve")
    assert approve.upstream_task_ids == {"plan"}
    assert dag.get_task("merge").upstream_task_ids == {"plan", "approve"}
    assert dag.get_task("check_quality").upstream_task_ids == {"merge"}
    assert all(task.trigger_rule == "all_success" for task in dag.tasks)
    assert isinstance(approve, ApprovalOperator)
    assert approve.defaults == ["Reject"]
    assert approve.response_timeout == timedelta(days=1)


def test_no_schedule_starts_it_and_a_pending_approval_holds_up_no_other(dag):
    assert dag.timetable.can_be_scheduled is False
    assert dag.max_active_runs >= 24
    assert dag.get_task("merge").max_active_tis_per_dag == 1
    assert dag.get_task("approve").max_active_tis_per_dag is None


def test_the_repaired_window_is_announced_so_that_it_is_compared_again(dag):
    check = dag.get_task("check_quality")
    assert [asset.uri for asset in check.outlets] == [pizzeria.HOURLY_ASSET_URI]
    params = {"window_start": BOUNDS[0], "window_end": BOUNDS[1]}
    check.render_template_fields({"params": params})
    assert (check.window_start, check.window_end) == BOUNDS


def test_the_form_shows_what_the_plan_says(dag, plans):
    plans([CANCELLED])
    planned = repair.plan("", *BOUNDS)
    pulled = SimpleNamespace(xcom_pull=lambda task_ids: {"plan": planned}[task_ids])
    approve = dag.get_task("approve")
    approve.render_template_fields({"ti": pulled})
    assert approve.subject == f"Merge 1 rows of {WINDOW} into the hourly table?"
    assert "| 17 | cancelled | order\\_time: 2024\\-05\\-01 12:30:00\\+00:00, " in approve.body
    assert "also change 6 of its 40 other rows" in approve.body
    assert planned["approved"] == {"[17]": CANCELLED.digest}


def test_what_the_database_holds_is_no_markdown(plans):
    plans([CANCELLED])
    body = repair.plan("", *BOUNDS)["body"]
    assert r"Ada \| \[x\]\(javascript:1\) \<b\>" in body
    rows = [line.replace(r"\|", "") for line in body.splitlines() if line.startswith("|")]
    assert [row.count("|") for row in rows] == [5, 5, 5]


def test_a_window_without_changes_is_skipped_before_anybody_is_asked(plans):
    plans([])
    with pytest.raises(AirflowSkipException, match="no row of"):
        repair.plan("", *BOUNDS)


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (RepairRefusedError("other hands"), AirflowFailException),
        (WindowNotWrittenError("no run"), AirflowFailException),
        (PostgresUnavailableError("silent"), AirflowException),
        (WriterBusyError("writing"), AirflowException),
    ],
)
def test_only_what_may_pass_by_itself_is_tried_again(plans, error, raised):
    plans(error)
    with pytest.raises(AirflowException, match=str(error)) as failure:
        repair.plan("", *BOUNDS)
    assert type(failure.value) is raised


def test_bounds_that_are_none_fail_at_once():
    with pytest.raises(AirflowFailException, match="not after its start"):
        repair.plan("", *reversed(BOUNDS))


@pytest.mark.parametrize(
    ("user", "by"),
    [
        ({"id": "1", "name": "ada"}, "ada"),
        ({"id": "1", "name": ""}, "1"),
        (None, "an unknown user"),
    ],
)
def test_what_was_approved_is_merged_and_by_whom_is_kept(plans, monkeypatch, user, by):
    plans([CANCELLED])
    merged = []

    def repair_window(_, *arguments):
        merged.append(arguments)

    monkeypatch.setattr(repairing, "repair_window", repair_window)
    said = repair.merge("", repair.plan("", *BOUNDS), {"responded_by_user": user})
    assert merged == [(WINDOW, {"[17]": CANCELLED.digest}, by)]
    assert "nothing was changed" in said
