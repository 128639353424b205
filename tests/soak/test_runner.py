"""A soak goes on where it was, notes what it finds, and what it could not do."""

from collections.abc import Callable
from pathlib import Path

import pytest
from lockstep.settings import Settings
from lockstep_tools.errors import SoakError
from lockstep_tools.soak.findings import Finding, findings_of
from lockstep_tools.soak.hour import LATE_SECONDS_MAX, WARM_UP_MINUTES, compared, undisturbed
from lockstep_tools.soak.report import Progress, Report, report_path
from lockstep_tools.soak.runner import Plan, run, run_scenario, whole_plan
from lockstep_tools.soak.scenarios import Bench, Scenario

from tests.soak.change_log_tables import settings_of


class Steps(Scenario):
    """Three steps of which one may fail or be cut off, as by a kill."""

    name = "steps"
    total = 3

    def __init__(self, second: Callable[[], list[Finding]] = list) -> None:
        self.second = second
        self.did: list[int] = []

    def step(self, bench: Bench, number: int, progress: Progress) -> list[Finding]:
        self.did.append(number)
        return self.second() if number == 1 else []


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return settings_of(tmp_path)


def go(settings: Settings, scenario: Scenario) -> Progress:
    report = Report(settings)
    progress = report.of(scenario.name, scenario.seed, scenario.total)
    run_scenario(None, scenario, progress, report, lambda _text: None)
    return progress


def test_a_killed_soak_goes_on_with_the_step_that_was_under_way(settings: Settings) -> None:
    def killed() -> list[Finding]:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        go(settings, Steps(killed))
    (left,) = Report(settings).scenarios
    assert (left.done, left.state) == (1, "under way")
    again = Steps()
    assert go(settings, again).state == "passed"
    assert again.did == [1, 2]


def test_what_is_done_is_not_done_again(settings: Settings) -> None:
    go(settings, Steps())
    again = Steps()
    go(settings, again)
    assert again.did == []
    assert run(settings, Plan([again]), lambda _text: None).scenarios[0].done == 3


def test_a_finding_is_kept_with_its_step_and_the_rest_is_done(settings: Settings) -> None:
    go(settings, Steps(lambda: findings_of("equality", "temporal", "differ", [1, 2])))
    (one,) = Report(settings).scenarios
    assert (one.state, one.done) == ("failed", 3)
    assert one.findings[0].startswith("step 2: temporal: differ (equality, 2 times)")


def test_a_step_that_could_not_be_done_is_a_finding(settings: Settings) -> None:
    def impossible() -> list[Finding]:
        raise SoakError("there is no driver to kill")

    progress = go(settings, Steps(impossible))
    assert "no driver to kill" in progress.findings[0]
    assert progress.done == 3


def test_a_defect_of_ours_ends_the_soak_and_is_not_hidden(settings: Settings) -> None:
    def defect() -> list[Finding]:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        go(settings, Steps(defect))


def test_a_damaged_report_is_named(settings: Settings) -> None:
    path = report_path(settings)
    path.parent.mkdir(parents=True)
    path.write_text('{"scenarios": [{"name": 1}]}')
    with pytest.raises(SoakError, match=r"report\.json"):
        Report(settings)


def test_the_whole_plan_kills_each_service_twenty_times() -> None:
    kills = list(whole_plan(Path("x"), "kills of").scenarios)
    assert [one.kills for one in kills[:6]] == [20] * 6
    (in_turn,) = whole_plan(Path("x"), "in turn").scenarios
    assert (len(set(in_turn.targets)), in_turn.total) == (6, 4)
    with pytest.raises(SoakError, match="pizza_place"):
        whole_plan(Path("x"), "no such")


def minutes(mib: Callable[[int], float]) -> list[dict[str, float]]:
    return [
        {"driver_mib": mib(minute), "files": 100, "p50": 0.2, "p99": 0.8, "modes": 5, "late": 0.1}
        for minute in range(60)
    ]


def test_a_steady_hour_is_right_whatever_its_warm_up() -> None:
    assert compared(minutes(lambda m: 500 if m < WARM_UP_MINUTES else 1000 + m % 3)) == []


def test_an_hour_of_which_the_load_or_a_mode_was_away_is_no_hour() -> None:
    hour = minutes(lambda _: 1000)
    assert undisturbed(hour, modes=5) == []
    hour[3]["late"] = LATE_SECONDS_MAX + 1
    hour[40]["modes"] = 4
    assert [one.subject for one in undisturbed(hour, modes=5)] == ["load", "latency"]


def test_memory_that_grows_is_found() -> None:
    (finding,) = compared(minutes(lambda m: 1000 + 10 * m))
    assert finding.subject == "driver_mib"


def test_too_short_an_hour_says_nothing() -> None:
    assert compared(minutes(lambda m: 1000 + 10 * m)[:11]) == []
