"""`lockstep parity repair`: shows, asks, and merges only when approved."""

import pytest
from lockstep.cli import app
from lockstep.settings import Settings
from typer.testing import CliRunner

from tests.hourly_table import version_of
from tests.repair.conftest import HOUR, Shop, whole_rows

pytestmark = pytest.mark.services

BOUNDS = ["--start", HOUR.start.isoformat(), "--end", HOUR.end.isoformat()]


@pytest.fixture
def say(hour: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("LOCKSTEP_LAKEHOUSE", hour.lakehouse_uri)
    monkeypatch.setenv("COLUMNS", "100")

    def run(*options: str, answer: str = ""):
        return CliRunner().invoke(app, ["parity", "repair", *BOUNDS, *options], input=answer)

    return run


def test_it_shows_what_changed_and_merges_it_when_approved(hour: Settings, shop: Shop, say) -> None:
    first = min(whole_rows(hour))
    shop(f"DELETE FROM orders WHERE id = {first}", "UPDATE pizzas SET price = price + 1")
    version = version_of(hour)
    shown = say("--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "1 rows of" in shown.output
    assert "1 cancelled" in shown.output
    others = len(whole_rows(hour)) - 1
    assert f"change {others} of its {others} other rows" in " ".join(shown.output.split())
    declined = say(answer="n\n")
    assert (declined.exit_code, version_of(hour)) == (1, version)
    done = say("--yes")
    assert done.exit_code == 0, done.output
    assert "1 rows merged by repair" in done.output
    assert first not in whole_rows(hour)
    again = say("--yes")
    assert (again.exit_code, version_of(hour)) == (0, version + 1)
    assert "no row of" in again.output
