"""What the demonstration waits for in Airflow and in the ledger, and when it gives up."""

from datetime import UTC, datetime, timedelta

import pytest
from lockstep.airflow_admin.client import DagRun
from lockstep.errors import ServiceError
from lockstep.ledger import book
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict
from lockstep.model.window import Window
from lockstep.settings import Settings
from pizzeria.demo import comparisons, hourly_runs

from tests.ledger.compared_hours import line

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
HOURS = [Window(NOON + timedelta(hours=n), NOON + timedelta(hours=n + 1)) for n in range(3)]
WANTED = [(hour, StreamMode.OUTBOX) for hour in HOURS[:2]]


class FakeAirflow:
    """Each look at the runs is the next of `looks`; backfills are remembered."""

    def __init__(self, *looks: list) -> None:
        self.looks = list(looks)
        self.backfills: list[tuple[Window, Window]] = []

    def _next(self) -> list:
        return self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]

    def runs(self, _dag_id: str, _first: Window, _last: Window) -> list[DagRun]:
        return self._next()

    def states(self, _dag_id: str, _since: datetime) -> list[str]:
        return self._next()

    def backfill(self, _dag_id: str, first: Window, last: Window) -> int:
        self.backfills.append((first, last))
        return 1

    def task_seconds(self, _dag_id: str, _run: DagRun) -> float:
        return 20.0


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (comparisons, hourly_runs):
        monkeypatch.setattr(module, "POLL_SECONDS", 0.0)


def run(hour: Window, state: str = "success", kind: str = "backfill", started: datetime = NOON):
    return DagRun(f"{kind} {hour}", kind, state, hour.start, started)


def run_hours(airflow: FakeAirflow, looked: list | None = None) -> dict:
    at_work = (lambda: looked.append(1)) if looked is not None else (lambda: None)
    return hourly_runs.run_hours(airflow, HOURS, NOON, lambda _line: None, at_work)


def test_what_the_scheduler_has_run_since_is_not_backfilled() -> None:
    scheduled, looked = run(HOURS[2], kind="scheduled"), []
    airflow = FakeAirflow(
        [run(HOURS[2], "running", "scheduled")],
        [scheduled],
        [run(HOURS[0]), run(HOURS[1]), scheduled],
    )
    finished = run_hours(airflow, looked)
    assert airflow.backfills == [(HOURS[0], HOURS[1])]
    assert [finished[hour.start].run_type for hour in HOURS] == [
        "backfill",
        "backfill",
        "scheduled",
    ]
    assert len(looked) == 3


def test_runs_of_before_do_not_count() -> None:
    old = [run(hour, started=NOON - timedelta(seconds=1)) for hour in HOURS]
    airflow = FakeAirflow(old, old, [run(hour) for hour in HOURS])
    assert len(run_hours(airflow)) == 3
    assert airflow.backfills == [(HOURS[0], HOURS[2])]


def test_a_failed_hourly_run_ends_it() -> None:
    with pytest.raises(ServiceError, match="13:00 ended as failed"):
        run_hours(FakeAirflow([run(HOURS[0]), run(HOURS[1], "failed")]))


def test_hours_that_do_not_come_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hourly_runs, "RUNS_SECONDS_MAX", 0)
    with pytest.raises(ServiceError, match="1 of 3 hourly runs are done"):
        run_hours(FakeAirflow([run(HOURS[0])]))


def verdicts(airflow: FakeAirflow, settings: Settings, lines: list | None = None) -> list:
    since = line(0, Verdict.PASS).checked_at
    hear = lines.append if lines is not None else (lambda _line: None)
    return comparisons.await_verdicts(airflow, settings, WANTED, since, hear)


def test_verdicts_come_in_the_order_wanted_also_failed_ones(tmp_path) -> None:
    settings, lines = Settings(home=tmp_path), []
    book.append(settings, line(1, Verdict.FAIL, value_mismatch=1), [])
    book.append(settings, line(0, Verdict.PASS), [])
    found = verdicts(FakeAirflow(["failed"]), settings, lines)
    assert [one.verdict for one in found] == [Verdict.PASS, Verdict.FAIL]
    assert len(lines) == 2


@pytest.mark.parametrize("verdict", [Verdict.WAITING, None])
def test_comparisons_that_ended_without_a_verdict_end_it(tmp_path, verdict) -> None:
    settings = Settings(home=tmp_path)
    book.append(settings, line(0, Verdict.PASS), [])
    if verdict:
        book.append(settings, line(1, verdict), [])
    airflow = FakeAirflow(["failed", "running"], ["failed", "success"])
    with pytest.raises(ServiceError, match=r"1 comparisons are missing.*13:00.*ended without it"):
        verdicts(airflow, settings)
    assert len(airflow.looks) == 1, "while a run is under way it was waited"


def test_verdicts_of_before_do_not_count(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(comparisons, "COMPARISONS_SECONDS_MAX", 0)
    settings = Settings(home=tmp_path)
    for hour in (0, 1):
        book.append(settings, line(hour, Verdict.PASS), [])
    since = line(1, Verdict.PASS).checked_at + timedelta(seconds=1)
    with pytest.raises(ServiceError, match="2 comparisons are missing"):
        comparisons.await_verdicts(
            FakeAirflow(["running"]), settings, WANTED, since, lambda _line: None
        )


def test_examples_are_of_each_class(tmp_path) -> None:
    from tests.ledger.compared_hours import DIFFERENCES

    settings, failed = Settings(home=tmp_path), line(0, Verdict.FAIL, value_mismatch=1)
    book.append(settings, failed, [*DIFFERENCES, *DIFFERENCES])
    shown, found = comparisons.examples(settings, failed, of_each=1)
    assert len(found) == 4
    assert sorted(one.kind for one in shown) == ["dimension_drift", "value_mismatch"]
