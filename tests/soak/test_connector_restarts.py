"""Restarts within open transactions: nothing is lost, and why. Many of them: `lockstep soak`."""

import random

import httpx
import pytest
from lockstep import contracts
from lockstep.settings import Settings
from lockstep.soak.connector_restarts import run_restarts
from lockstep.soak.open_transactions import OpenTransaction, Written, committed

pytestmark = pytest.mark.services

RESTARTS = 4


@pytest.mark.e2e
def test_a_restarted_connector_sends_open_transactions_whole(change_capture: Settings) -> None:
    report = run_restarts(change_capture, RESTARTS, seed=1)
    assert report.findings == []
    assert report.open_transactions >= RESTARTS
    assert report.changes > report.open_transactions


def test_the_connector_goes_on_where_it_searches_for_nothing(change_capture: Settings) -> None:
    """Debezium searches, and drops what comes before, when an offset has lsn_proc."""
    run_restarts(change_capture, 0, seed=1)
    url = f"{change_capture.connect_url}/connectors/{contracts.CONNECTOR}/offsets"
    (stored,) = httpx.get(url).raise_for_status().json()["offsets"]
    assert set(stored["offset"]) == {"lsn", "lsn_commit", "ts_usec"}
    assert stored["offset"]["lsn"] == stored["offset"]["lsn_commit"]


def test_of_two_transactions_with_one_id_the_last_is_meant(postgres: Settings) -> None:
    """A server that was killed gives the ids again that had not reached its log."""
    last = OpenTransaction(postgres, "last", random.Random(1))
    last.change()
    last.commit()
    before = Written("before", last.written.tx_id, [("clients", "c", "lost")], begun_seconds=0.0)
    assert committed(postgres, [last.written, before]) == [last.written]
