"""The DAGs of the published table: supervised as a stream, and switched after an approval."""

from types import SimpleNamespace

import pytest
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from lockstep.airflow_ops import cutover
from lockstep.model.modes import FEEDS, PUBLISHER
from lockstep.publish import switch
from lockstep.publish.errors import CutoverRefusedError
from pizzeria import names as pizzeria

from tests.airflow_ops.made_dags import dags_of

ANNA = {"responded_by_user": {"id": "7", "name": "anna"}, "chosen_options": ["Approve"]}


@pytest.fixture(scope="module")
def dags() -> dict:
    return dags_of()


@pytest.fixture
def refuse(monkeypatch):
    def refuse_it(*_):
        raise CutoverRefusedError("outbox", "2 of the 24 windows asked for")

    monkeypatch.setattr(switch, "plan_switch", refuse_it)
    monkeypatch.setattr(switch, "switch", refuse_it)


def test_what_is_refused_is_never_asked_and_not_tried_again(refuse) -> None:
    with pytest.raises(AirflowFailException, match="nothing was changed: 2 of the 24"):
        cutover.question("", "outbox", 24)


def test_what_is_refused_after_the_approval_fails_and_may_be_retried(refuse) -> None:
    with pytest.raises(AirflowException, match="2 of the 24") as raised:
        cutover.switch_feed("", "outbox", 24, ANNA)
    assert not isinstance(raised.value, AirflowFailException)


def test_the_question_says_what_becomes_of_the_table(monkeypatch) -> None:
    planned = switch.PlannedSwitch("outbox", "batch", 1_234, None)
    monkeypatch.setattr(switch, "plan_switch", lambda *_: planned)
    assert "has 1,234 rows and is fed by outbox" in cutover.question("", "batch", 24)


def test_the_ledger_has_who_approved(monkeypatch) -> None:
    asked = []

    def switch_it(_settings, _plan, feed, windows, approved_by, as_of):
        asked.append((feed, windows, approved_by))
        return SimpleNamespace()

    monkeypatch.setattr(switch, "switch", switch_it)
    monkeypatch.setattr("lockstep.publish.formatting.of_cutover", lambda _: "done")
    assert cutover.switch_feed("", "outbox", 12, ANNA) == "done"
    assert asked == [("outbox", 12, "anna in Airflow")]


def test_the_cutover_waits_for_a_person_between_check_and_switch(dags) -> None:
    dag = dags[pizzeria.CUTOVER_DAG_ID]
    assert (dag.schedule, dag.is_paused_upon_creation, dag.max_active_runs) == (None, False, 1)
    check, approve, switched = (dag.get_task(name) for name in ("check", "approve", "switch"))
    assert approve.upstream_task_ids == {check.task_id}
    assert switched.upstream_task_ids == {approve.task_id}
    assert approve.response_timeout.total_seconds() == 12 * 3600
    assert approve.defaults is None  # no answer is no approval
    assert not approve.ignore_downstream_trigger_rules
    assert switched.trigger_rule == "all_success"
    assert (check.retries, switched.retries) == (0, 3)
    assert dag.params.get_param("feed").schema["enum"] == list(FEEDS)
    assert dag.params["windows"] == 24
    assert dag.doc_md.startswith("### What it does")


def test_the_publisher_is_supervised_as_a_stream(dags) -> None:
    dag = dags[pizzeria.PUBLISH_DAG_ID]
    assert (dag.schedule, dag.is_paused_upon_creation, dag.max_active_runs) == (None, False, 1)
    [task] = dag.tasks
    assert task.mode == PUBLISHER
    assert "the batch" in dag.doc_md
