"""Restarts within open transactions: nothing is lost, and why. Many of them: `lockstep soak`."""

import random
import time

import httpx
import psycopg
import pytest
from lockstep.devstack import control
from lockstep.devstack.connect import Connect
from lockstep.settings import Settings
from lockstep.sources import change_topic
from lockstep_tools.soak.captured import check_captured, read_captured
from lockstep_tools.soak.connector_restarts import _until, kill, run_restarts
from lockstep_tools.soak.open_transactions import OpenTransaction, Written, committed
from pizzeria import names as pizzeria
from pizzeria.names import PIZZAS, Login
from pizzeria.shop.loader import load
from pizzeria.shop.pizza_place import read_pizza_place

from tests.hourly_table import SMALL_PIZZERIA, empty_pizzeria

pytestmark = pytest.mark.services

RESTARTS = 4
COPIED_ROWS = 60_000
"""Some seconds of Debezium's work, so that the kill comes among them."""
FIRST_ROWS_SECONDS_MAX = 60


@pytest.fixture
def capture(change_capture: Settings) -> Settings:
    """A shop of its own, all of it captured: rows that other tests left may have the next ids."""
    first = change_topic.end_offset(change_capture)
    empty_pizzeria(change_capture)
    load(change_capture, read_pizza_place(SMALL_PIZZERIA))
    last = OpenTransaction(change_capture, "last", random.Random(1))
    last.change()
    last.commit()
    _until(change_capture, first, last.written)
    return change_capture


@pytest.mark.e2e
def test_a_restarted_connector_sends_open_transactions_whole(capture: Settings) -> None:
    report = run_restarts(capture, RESTARTS, seed=1)
    assert report.findings == []
    assert report.open_transactions >= RESTARTS
    assert report.changes > report.open_transactions


@pytest.mark.e2e
def test_a_kill_among_the_rows_of_a_copy_loses_none_of_them(capture: Settings) -> None:
    """Rows of one COPY share positions: Debezium's own class lost 97 rows here when tried."""
    first = change_topic.end_offset(capture)
    written = copy_pizzas(capture, f"copy-{first}")
    deadline = time.monotonic() + FIRST_ROWS_SECONDS_MAX
    while change_topic.end_offset(capture) < first + 100 and time.monotonic() < deadline:
        time.sleep(0.01)
    kill(capture, Connect.name)
    control.up(capture, [Connect.name])
    found = read_captured(_until(capture, first, written))
    assert check_captured([written], [], found) == []
    assert found[written.tx_id % 2**32].repeated > 0


def copy_pizzas(settings: Settings, label: str) -> Written:
    """One committed transaction with one COPY."""
    written = Written(label)
    with psycopg.connect(**settings.connection(Login.SHOP)) as shop:
        query = "SELECT pg_current_xact_id()::text::bigint"
        written.tx_id = shop.execute(query).fetchone()[0]
        with shop.cursor().copy(f"COPY {PIZZAS} (name, price) FROM STDIN") as rows:
            for number in range(COPIED_ROWS):
                rows.write_row((f"{label}-{number}", 1))
                written.changes.append((PIZZAS, "c", f"{label}-{number}"))
    return written


def test_the_connector_goes_on_where_it_searches_for_nothing(capture: Settings) -> None:
    """Debezium searches, and drops what comes before, when an offset has lsn_proc."""
    run_restarts(capture, 0, seed=1)
    url = f"{capture.connect_url}/connectors/{pizzeria.CONNECTOR}/offsets"
    (stored,) = httpx.get(url, auth=capture.connect_auth).raise_for_status().json()["offsets"]
    assert set(stored["offset"]) == {"lsn", "lsn_commit", "ts_usec"}
    assert stored["offset"]["lsn"] == stored["offset"]["lsn_commit"]


def test_of_two_transactions_with_one_id_the_last_is_meant(postgres: Settings) -> None:
    """A server that was killed gives the ids again that had not reached its log."""
    last = OpenTransaction(postgres, "last", random.Random(1))
    last.change()
    last.commit()
    before = Written("before", last.written.tx_id, [("clients", "c", "lost")], begun_seconds=0.0)
    assert committed(postgres, [last.written, before]) == [last.written]


def test_a_transaction_whose_id_was_lost_with_the_server_is_not_committed(
    postgres: Settings,
) -> None:
    """A server that was killed does not know ids of which nothing had reached its log."""
    last = OpenTransaction(postgres, "last", random.Random(1))
    last.change()
    last.commit()
    lost = Written("lost", last.written.tx_id + 1_000_000, [("clients", "c", "lost")])
    assert committed(postgres, [last.written, lost]) == [last.written]
