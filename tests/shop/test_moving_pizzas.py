"""Pizzas move between orders for ever, and their number stays."""

import time
from collections.abc import Callable

import psycopg
import pytest
from lockstep.accounts import Role
from lockstep.devstack import control
from lockstep.host import process
from lockstep.settings import Settings
from lockstep.sources.errors import PostgresUnavailableError
from lockstep_tools.soak.published import read_published
from pizzeria.names import Login
from pizzeria.shop.moving_pizzas import PIZZAS_EACH, Move, Movers, Round, open_round

pytestmark = pytest.mark.services

ORDERS = 6


def until(done: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 30
    while not done():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def pizzas_at_each_commit(settings: Settings, moved: Round) -> set[int]:
    """The total after each transaction that touched a pair of orders, by what they published."""
    latest: dict[int, int] = {}
    by_commit: dict[object, list] = {}
    for one in read_published(settings):
        by_commit.setdefault(one.position, []).append(one)
    totals = set()
    for _, changes in sorted(by_commit.items()):
        latest |= {one.order_id: len(one.content.pizzas or ()) for one in changes}
        totals.add(sum(latest.values()))
    assert set(latest) == set(moved.order_ids)
    return totals


def test_no_transaction_changes_the_number_of_pizzas(shop: Settings) -> None:
    moved = open_round(shop, ORDERS, seed=1)
    with Movers(shop, moved, rate=200, seed=1) as movers:
        until(lambda: len(movers.report.transactions) == len(Move), "not every kind happened")
    assert moved.pizzas == ORDERS * PIZZAS_EACH
    assert pizzas_at_each_commit(shop, moved) == {moved.pizzas}
    ops = {one.content.op for one in read_published(shop)}
    assert ops >= {"c", "u"}


def test_movers_go_on_after_an_outage(shop: Settings) -> None:
    moved = open_round(shop, ORDERS, seed=2)
    with Movers(shop, moved, rate=100, seed=2) as movers:
        until(lambda: movers.report.transactions.total() > 10, "nothing happened")
        process.kill_session(process.read_record(shop.home, "postgres"))
        until(lambda: movers.outages > 0, "no outage")
        control.up(shop, ["postgres"])
        before = movers.report.transactions.total()
        until(lambda: movers.report.transactions.total() > before + 10, "never went on")
    assert pizzas_at_each_commit(shop, moved) == {moved.pizzas}


def test_an_outage_without_end_is_raised(shop: Settings) -> None:
    moved = open_round(shop, ORDERS, seed=3)
    movers = Movers(shop, moved, rate=100, seed=3, outage_seconds_max=0.5)
    with psycopg.connect(**shop.connection(Role.ADMIN), autocommit=True) as admin:
        admin.execute(f"ALTER ROLE {Login.SHOP} NOLOGIN")
        try:
            with pytest.raises(PostgresUnavailableError), movers:
                time.sleep(1)
        finally:
            admin.execute(f"ALTER ROLE {Login.SHOP} LOGIN")
