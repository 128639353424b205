"""The checks by hand: which comparisons they are about, and how they end."""

import pytest
from lockstep.errors import LakehouseError
from lockstep.ledger import book
from lockstep.model.modes import StreamMode
from lockstep.model.verdict import Verdict
from lockstep.quality.command import check_hourly, check_streams
from lockstep.settings import Settings

from tests.quality.test_stream_check import changes_of, line, window, with_value, write

HOUR = [moment.isoformat() for moment in (window(0).start, window(0).end)]


@pytest.fixture
def settings(tmp_path, monkeypatch) -> Settings:
    monkeypatch.setenv("LOCKSTEP_HOME", str(tmp_path))
    return Settings.load()


def test_each_mode_that_the_window_was_compared_with_is_checked(settings, capsys):
    write(settings, changes_of(0))
    write(settings, with_value(3, op="x")(changes_of(0)), StreamMode.LOOKUP)
    book.append(settings, line(0), [])
    assert check_streams(*HOUR, []) == 0
    assert "12 changes of orders_enriched__outbox" in capsys.readouterr().out

    book.append(settings, line(0, mode=StreamMode.LOOKUP), [])
    assert check_streams(*HOUR, []) == 1
    output = capsys.readouterr().out
    assert "12 changes of orders_enriched__outbox" in output
    assert "fail: op known: all but 1 of 12 changes" in output
    assert check_streams(*HOUR, [StreamMode.OUTBOX]) == 0


def test_a_window_that_was_not_compared_is_said(settings):
    book.append(settings, line(0, verdict=Verdict.WAITING), [])
    with pytest.raises(LakehouseError, match=r"never compared: .lockstep parity check"):
        check_streams(*HOUR, [])
    with pytest.raises(LakehouseError, match="never compared with outbox"):
        check_streams(*HOUR, [StreamMode.OUTBOX])


def test_the_hourly_table_ends_with_what_its_checks_come_to(tmp_path, monkeypatch, hourly_table):
    monkeypatch.setenv("LOCKSTEP_HOME", str(tmp_path))
    for hour, lost, code in ((11, 0, 0), (12, 1, 1)):
        hourly = hourly_table.window(hour)
        orders = hourly_table.orders(hourly)
        hourly_table.commit(hourly, orders, orders_at_cut=len(orders) + lost)
        assert check_hourly(hourly.start.isoformat(), hourly.end.isoformat()) == code
