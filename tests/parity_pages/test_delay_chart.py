"""The chart of how long orders waited: its axis is where the orders are."""

import re
from datetime import UTC, datetime, timedelta

from lockstep.ledger.delays import Delay, Delays
from lockstep.model.modes import StreamMode
from lockstep.model.window import Window
from lockstep.parity_pages.axes import LEFT, WIDTH
from lockstep.parity_pages.delay_chart import delay_chart

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
OUTBOX = StreamMode.OUTBOX
HOUR = Window(NOON, NOON + timedelta(hours=1))


def chart_of(*commits: datetime) -> tuple[list[float], list[str]]:
    """Where the dots are from left to right, and the times below the axis."""
    svg = delay_chart(Delays(batch=[], streams={OUTBOX: [Delay(at, 0.3) for at in commits]}), HOUR)
    places = [float(x) for x in re.findall(r'cx="([\d.]+)"', svg)]
    return places, re.findall(r">(\d\d:\d\d(?::\d\d)?)<", svg)


def test_orders_of_the_hour_are_shown_within_the_hour() -> None:
    (place,), times = chart_of(NOON + timedelta(minutes=30))
    assert abs(place - (LEFT + WIDTH) / 2) < 10
    assert times == ["12:10", "12:20", "12:30", "12:40", "12:50"]


def test_orders_written_down_later_have_the_axis_for_themselves() -> None:
    late = NOON + timedelta(hours=5)
    (first, last), times = chart_of(late, late + timedelta(minutes=2))
    assert first < LEFT + 5
    assert last > WIDTH - 15
    assert times[0] == "17:00:20"


def test_one_order_alone_is_shown() -> None:
    places, times = chart_of(NOON + timedelta(hours=5))
    assert len(places) == 1
    assert times


def test_nothing_to_show_is_no_chart() -> None:
    assert chart_of() == ([], [])


def test_batch_and_each_stream_have_dots_of_their_own() -> None:
    one, other = Delay(NOON, 0.3), Delay(NOON + timedelta(minutes=1), 2.0)
    streams = {OUTBOX: [one, other], StreamMode.TEMPORAL: [one]}
    svg = delay_chart(Delays(batch=[Delay(NOON, 900.0)], streams=streams), HOUR)
    counts = [svg.count(f'<circle class="{kind}"') for kind in ("batch", "line-1", "line-2")]
    assert counts == [1, 2, 1]
    assert "hourly run: median 900.0 s, outbox: median 2.0 s, temporal: median 0.3 s" in svg
