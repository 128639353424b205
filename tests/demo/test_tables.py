"""What the demo shows of its verdicts: each hour, and examples of the last one's differences."""

import io
from pathlib import Path

from lockstep.ledger import book
from pizzeria.commands.demo_tables import print_verdicts
from rich.console import Console

from tests.ledger.compared_hours import compared_hours


def test_verdicts_are_shown_with_examples_of_what_differs(tmp_path: Path) -> None:
    settings = compared_hours(tmp_path)
    lines = sorted(book.lines(settings), key=lambda line: line.window.start)
    shown = io.StringIO()
    print_verdicts(Console(file=shown, width=200), settings, lines)
    text = shown.getvalue()
    assert "1 dimension_drift, 1 value_mismatch" in text
    assert "mode outbox" in text
    assert "pizzas" in text
    print_verdicts(Console(file=io.StringIO()), settings, lines[:1])
