"""The ledger keeps every line, and knows how far a mode is verified."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import permutations
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from lockstep.cli import app
from lockstep.ledger import book
from lockstep.ledger.entries import LEDGER_COLUMNS, Comparison, Difference, Judged, Verified
from lockstep.ledger.reached import verified
from lockstep.ledger.status import last_failed, status_table
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import DifferenceClass, Verdict
from lockstep.model.window import Window
from lockstep.pipeline.delta_types import arrow_schema
from lockstep.pipeline.version import VERSION_OF_BEFORE
from lockstep.settings import Settings
from pizzeria.names import PARITY_LEDGER
from rich.console import Console
from typer.testing import CliRunner

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
PASS, FAIL, WAITING, NOT_COVERED = Verdict.PASS, Verdict.FAIL, Verdict.WAITING, Verdict.NOT_COVERED


NOW = VERSION_OF_BEFORE


def hour(number: int) -> datetime:
    return NOON + timedelta(hours=number)


def judged(*lines: Comparison) -> list[Judged]:
    return [
        Judged(o.mode, o.window.start, o.window.end, o.verdict, o.checked_at, o.pipeline_version)
        for o in lines
    ]


def line(number: int, verdict: Verdict, checked: int = 0, **changed: object) -> Comparison:
    values = {
        "check_id": f"check {number} {checked}",
        "window": Window(hour(number), hour(number + 1)),
        "mode": StreamMode.OUTBOX,
        "verdict": verdict,
        "reason": "",
        "run_id": "a run",
        "cut_snapshot": "700:720:705,710",
        "cut_lsn": 5000,
        "batch_version": 3,
        "stream_version": 4,
        "stream_frontier": None,
        "orders_compared": 41,
        "definition": "abc",
        "checked_at": NOON + timedelta(days=1, minutes=checked, seconds=number),
        "seconds": 1.5,
        "counts": {DifferenceClass.DIMENSION_DRIFT: 2},
    }
    return Comparison(**{**values, **changed})


@pytest.mark.parametrize(
    ("verdicts", "since_and_through"),
    [
        ([], None),
        ([FAIL, WAITING], None),
        ([PASS], (0, 1)),
        ([PASS, PASS, PASS], (0, 3)),
        ([NOT_COVERED, PASS, PASS], (1, 3)),
        ([PASS, FAIL, PASS], (2, 3)),
        ([PASS, WAITING, PASS, PASS], (2, 4)),
        ([PASS, None, PASS], (2, 3)),
        ([PASS, PASS, FAIL], (0, 2)),
        ([PASS, FAIL, PASS, PASS, NOT_COVERED, WAITING], (2, 4)),
    ],
)
def test_a_mode_is_verified_over_the_last_windows_that_passed_without_a_gap(
    verdicts: Sequence[Verdict | None], since_and_through: tuple[int, int] | None
) -> None:
    lines = [line(n, verdict) for n, verdict in enumerate(verdicts) if verdict is not None]
    expected = since_and_through and Verified(*map(hour, since_and_through))
    assert verified(reversed(judged(*lines)), NOW) == expected


def test_an_hour_compared_again_closes_the_gap_and_opens_one() -> None:
    lines = [line(0, PASS), line(1, FAIL), line(2, PASS)]
    assert verified(judged(*lines), NOW) == Verified(hour(2), hour(3))
    assert verified(judged(*lines, line(1, PASS, checked=5)), NOW) == Verified(hour(0), hour(3))
    again = [*lines, line(1, PASS, checked=5), line(1, FAIL, checked=9)]
    assert verified(judged(*again), NOW) == Verified(hour(2), hour(3))
    for lines_in_any_order in permutations(judged(*again)):
        assert verified(lines_in_any_order, NOW) == Verified(hour(2), hour(3))


@pytest.mark.parametrize("seed", range(20))
def test_no_moment_of_what_is_verified_is_in_a_window_that_did_not_pass(
    seed: int, tmp_path: Path
) -> None:
    """Windows that overlap, and that are compared more than once; against a look at each hour."""
    random = Random(seed)
    lines = []
    for checked in range(random.randrange(1, 15)):
        start = random.randrange(12)
        window = Window(hour(start), hour(start + random.randrange(1, 4)))
        verdict = random.choice((PASS, PASS, PASS, FAIL, WAITING))
        lines.append(line(start, verdict, checked, window=window))
    newest = {one.window: one for one in lines}.values()

    def is_verified(moment: datetime) -> bool:
        at = [one.verdict for one in newest if one.window.start <= moment < one.window.end]
        return bool(at) and set(at) == {PASS}

    hours = [number for number in range(15) if is_verified(hour(number))]
    since = max((n for n in hours if n - 1 not in hours), default=None)
    expected = None if since is None else Verified(hour(since), hour(hours[-1] + 1))
    assert verified(judged(*lines), NOW) == expected, f"seed {seed}"
    settings = Settings(home=tmp_path)
    shuffled = random.sample(lines, len(lines))
    rows = [book.line_row(one) for one in shuffled]
    table = pa.Table.from_pylist(rows, arrow_schema(LEDGER_COLUMNS))
    write_deltalake(settings.table_uri(settings.names.ledger), table)
    newest = max(newest, key=lambda one: (one.window.end, one.checked_at))
    (reached,) = book.reached(settings, NOW).values()
    assert (reached.newest, reached.verified) == (*judged(newest), expected), f"seed {seed}"
    (other,) = book.reached(settings, "another version").values()
    assert other.verified is None


def test_what_is_written_is_read_back_and_nothing_is_rewritten(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    assert book.lines(settings) == []
    first, again = line(0, FAIL), line(0, PASS, checked=1, stream_frontier=6000)
    other = line(0, PASS, mode=StreamMode.LOOKUP, check_id="it's another")
    found = [
        Difference(DifferenceClass.VALUE_MISMATCH, "[7]", '["pizzas"]', "{}", None, json.dumps({})),
        Difference(DifferenceClass.MISSING_IN_STREAM, "[5]", "[]", "{}", None, "{}"),
    ]
    book.append(settings, first, found)
    book.append(settings, again, [])
    book.append(settings, other, found[:1])
    assert book.lines(settings, StreamMode.OUTBOX) == [first, again]
    assert len(book.lines(settings)) == 3
    assert sorted(book.judged(settings)) == sorted(judged(first, again, other))
    assert book.lines(settings, since=hour(1)) == []
    assert book.differences(settings, first.check_id) == [found[1], found[0]]
    assert book.differences(settings, again.check_id) == []
    assert book.differences(settings, "it's another") == found[:1]


def test_a_line_is_there_only_with_its_differences(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A comparison that is killed between the two writes has said nothing."""
    settings, write, tables = Settings(home=tmp_path), book.append_rows, []

    def die_after_the_first(settings: Settings, table: str, *rest: object) -> None:
        tables.append(table)
        if len(tables) > 1:
            raise KeyboardInterrupt
        write(settings, table, *rest)

    monkeypatch.setattr(book, "append_rows", die_after_the_first)
    one = Difference(DifferenceClass.MISSING_IN_STREAM, "[5]", "[]", "{}", None, "{}")
    with pytest.raises(KeyboardInterrupt):
        book.append(settings, line(0, FAIL), [one])
    assert book.lines(settings) == []


def test_the_status_shows_each_mode_and_its_newest_hours() -> None:
    lines = [line(0, PASS), line(1, FAIL), line(0, WAITING, mode=StreamMode.LOOKUP)]
    console = Console(width=100, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(status_table(judged(*lines), NOW))
    text = console.export_text()
    assert "2024-05-01 13:00Z" in text
    assert "✓✗" in text
    assert "temporal" not in text


def test_of_each_mode_the_last_window_that_failed_is_named() -> None:
    lines = [line(0, FAIL), line(1, FAIL), line(2, PASS), line(1, WAITING, mode=StreamMode.LOOKUP)]
    [found] = last_failed(judged(*lines))
    assert (found.mode, found.start) == (lines[1].mode, lines[1].window.start)
    again = line(1, PASS)
    assert [one.start for one in last_failed(judged(*lines, again))] == [lines[0].window.start]


def test_the_command_says_why_a_window_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(home=tmp_path)
    monkeypatch.setattr(Settings, "load", lambda: settings)
    book.append(settings, line(0, FAIL), [])
    shown = CliRunner().invoke(app, ["parity", "status"]).output
    last = shown.splitlines()[-1]
    assert last.endswith(f"Z: {line(0, FAIL).reason}")


def test_what_another_version_of_the_pipeline_agreed_on_verifies_nothing() -> None:
    first = [line(0, PASS), line(1, PASS)]
    edited = line(2, PASS, pipeline_version="another")
    assert verified(judged(*first, edited), NOW) == Verified(hour(0), hour(2))
    assert verified(judged(*first, edited), "another") == Verified(hour(2), hour(3))
    assert verified(judged(*first), "another") is None


def test_a_ledger_of_before_versions_goes_on(tmp_path: Path) -> None:
    """Its lines are of the version that the pipeline had then."""
    settings = Settings(home=tmp_path)
    row = book.line_row(line(0, PASS))
    del row["pipeline_version"], row["task_log"]
    of_before = {name: kind for name, kind in LEDGER_COLUMNS.items() if name in row}
    book.append_rows(settings, PARITY_LEDGER, of_before, [row])
    assert book.judged(settings) == judged(line(0, PASS))
    book.append(settings, line(1, PASS, pipeline_version="another", task_log="/dags/p"), [])
    assert {one.version for one in book.judged(settings)} == {VERSION_OF_BEFORE, "another"}
    assert [one.pipeline_version for one in book.lines(settings)] == [VERSION_OF_BEFORE, "another"]
    assert [one.task_log for one in book.lines(settings)] == ["", "/dags/p"]


def test_differences_come_by_class_and_key_whatever_the_keys_are(tmp_path: Path) -> None:
    """Integers by their value; of several columns one after the other, as canonical texts."""
    settings = Settings(home=tmp_path)
    of_integers, of_two = ["[9]", "[10]", "[11]"], ['["a",10]', '["b",9]', '["b",10.5]']
    for check, keys in (("integers", of_integers), ("two columns", of_two)):
        found = [
            Difference(DifferenceClass.VALUE_MISMATCH, key, "[]", "{}", "{}", "{}")
            for key in reversed(keys)
        ]
        book.append(settings, line(0, FAIL, check_id=check), found)
        assert [one.key for one in book.differences(settings, check)] == keys
