"""The chart of a day: a line for each mode, broken where it wrote nothing."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
from deltalake import write_deltalake
from lockstep.observe.day_delays import DAY, EVERY, delays_of_day
from lockstep.observe.stream_metrics import SCHEMA
from lockstep.parity_pages.axes import LEFT, WIDTH
from lockstep.parity_pages.day_chart import day_chart
from lockstep.pipeline.names import METRICS_PATH
from lockstep.settings import Settings

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)


def test_a_line_is_broken_where_nothing_was_measured() -> None:
    at = [NOON - DAY + EVERY * n for n in (0, 1, 5)]
    svg = day_chart(
        {"outbox": [(one, 1.0) for one in at], "temporal": [(NOON - EVERY, 10.0)]}, NOON
    )
    first, second = re.findall(r'<path class="line-(\d)" d="([^"]+)"/>', svg)
    assert (first[0], first[1].count("M"), first[1].count("L")) == ("1", 2, 2)
    assert (second[0], second[1].count("M"), second[1].count("L")) == ("2", 1, 1)
    places = [float(x) for x in re.findall(r"[ML]([\d.]+) ", first[1])]
    assert LEFT < places[0] < places[1] < places[2] < WIDTH / 4
    assert "outbox: median 1.0 s, temporal: median 10.0 s" in svg
    assert re.findall(r">(\d\d:\d\d)<", svg) == ["16:00", "20:00", "00:00", "04:00", "08:00"]


def test_without_figures_there_is_no_chart(tmp_path: Path) -> None:
    assert delays_of_day(Settings(home=tmp_path), ["outbox"], NOON) == {}
    assert day_chart({}, NOON) == ""


def test_the_figures_of_a_day_are_medians_of_ten_minutes_by_mode(tmp_path: Path) -> None:
    settings = Settings(home=tmp_path)
    empty = dict.fromkeys(SCHEMA.names)

    def row(mode: str, before: timedelta, seconds: float | None) -> dict:
        at = NOON - before
        own = {"mode": mode, "measured_at": at, "measured_date": at.date()}
        return empty | own | {"latency_p50_seconds": seconds}

    rows = [
        *(row("outbox", timedelta(minutes=5 + n), 1.0 + n) for n in range(3)),
        row("outbox", timedelta(minutes=5), None),
        row("outbox", DAY + timedelta(minutes=1), 99.0),
        row("readings__outbox", timedelta(minutes=5), 7.0),
        row("temporal", timedelta(hours=3), 0.5),
    ]
    write_deltalake(settings.table_uri(METRICS_PATH), pa.Table.from_pylist(rows, SCHEMA))
    assert delays_of_day(settings, ["temporal", "outbox", "lookup"], NOON) == {
        "temporal": [(NOON - timedelta(hours=3), 0.5)],
        "outbox": [(NOON - EVERY, 2.0)],
    }
