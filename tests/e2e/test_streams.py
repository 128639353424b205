"""The five streams on the real stack, through crashes; `make soak` does the same for hours.

One driver and one database for all: each test adds to what the ones before did.
"""

import json
import random

import pytest
from lockstep.contracts import StreamMode
from lockstep.errors import StreamBusyError
from lockstep.soak import kills
from lockstep.soak.kills import Target
from lockstep.soak.report import Progress
from lockstep.soak.scenarios import Bench, FullMix, Kills, PizzaPlaceReplay, Redelivery, Scenario
from lockstep.soak.totals import current_totals
from lockstep.supervise import launcher

from tests.hourly_table import SMALL_PIZZERIA

pytestmark = [pytest.mark.e2e, pytest.mark.services]

TOTALS = json.loads((SMALL_PIZZERIA / "totals.json").read_text(encoding="utf-8"))


def findings_of(bench: Bench, scenario: Scenario) -> list[str]:
    progress = Progress(scenario.name, scenario.seed, scenario.total)
    found = [
        str(finding)
        for number in range(scenario.total)
        for finding in scenario.step(bench, number, progress)
    ]
    print(progress.figures)  # noqa: T201 - shown when the test fails
    return found


def test_a_data_set_gives_exactly_its_totals_in_every_mode(bench: Bench) -> None:
    assert findings_of(bench, PizzaPlaceReplay(SMALL_PIZZERIA)) == []
    for mode in StreamMode:
        found = current_totals(bench.settings, mode)
        assert (found.orders, found.pizzas) == (TOTALS["orders"], TOTALS["pizzas"])
        assert str(found.revenue) == TOTALS["revenue"]


def test_the_full_mix_is_the_same_in_every_mode_and_what_the_database_saw(bench: Bench) -> None:
    assert findings_of(bench, FullMix(seed=random.randrange(1000), seconds=15, rate=20)) == []


@pytest.mark.parametrize("target", [Target.DRIVER, Target.CONNECT, Target.KAFKA, Target.POSTGRES])
def test_a_kill_loses_doubles_and_spoils_nothing(
    bench: Bench, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How soon it is back, within a minute, is for `make soak` to measure on a quiet machine.
    monkeypatch.setattr(kills, "BACK_SECONDS_MAX", 180.0)
    assert findings_of(bench, Kills(target, 1, random.randrange(1000))) == []


def test_what_is_delivered_again_changes_nothing(bench: Bench) -> None:
    assert findings_of(bench, Redelivery(random.randrange(1000), total=1)) == []


def test_a_second_start_is_refused_by_name(bench: Bench) -> None:
    with pytest.raises(StreamBusyError, match="outbox"):
        launcher.start(bench.settings, [StreamMode.OUTBOX], "twice")
    assert bench.check() == []
