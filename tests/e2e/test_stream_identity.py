"""A slot, topic, checkpoint or database that is not the stream's own stops it by name.

One stack, on which each test goes on from what the ones before left.
"""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient
from lockstep.accounts import KafkaUser, Role
from lockstep.capture import connector, preflight
from lockstep.capture.connectors import connector_of
from lockstep.capture.reset import reset_capture
from lockstep.host.environment import settings_environment
from lockstep.kafka_login import client
from lockstep.model.modes import StreamMode
from lockstep.publish import conditions
from lockstep.publish import switch as cutover
from lockstep.publish.errors import FeedReplacedError
from lockstep.publish.step import step
from lockstep.settings import PASSWORD_FIELDS, Settings
from lockstep.sources.delta import open_table
from lockstep.sources.postgres import connect
from lockstep.streams.errors import (
    OtherDatabaseError,
    SlotLostError,
    SlotRecreatedError,
    StreamIdentityMissingError,
    TopicRecreatedError,
    TopicUnknownError,
)
from lockstep.streams.identity import claim, identity_path, read_remembered, table_of
from lockstep.supervise import launcher
from lockstep.supervise.heartbeat import DriverState, read_heartbeat
from lockstep_tools.soak.catching_up import wait_until_caught_up
from lockstep_tools.soak.totals import current_totals
from pizzeria.names import CHANGE_TOPIC, SOURCE_HISTORY, Login
from pizzeria.shop.loader import load
from pizzeria.shop.moving_pizzas import open_round
from pizzeria.shop.pizza_place import read_pizza_place
from pizzeria.shop.totals import totals_of

from tests.e2e.conftest import stack_of_its_own
from tests.hourly_table import SMALL_PIZZERIA
from tests.publish.shop import PLAN

pytestmark = [pytest.mark.e2e, pytest.mark.services]

MODES = (StreamMode.OUTBOX, StreamMode.TEMPORAL)
SECONDS_MAX = 60
WRITTEN_WHEN = ("seen_at", "written_at")


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Two streams that have written a data set, and are stopped."""
    with stack_of_its_own(tmp_path_factory.mktemp("identity"), ["connect"]) as settings:
        try:
            launcher.start(settings, MODES, "the tests")
            load(settings, read_pizza_place(SMALL_PIZZERIA))
            wait_until_caught_up(settings, MODES, SECONDS_MAX)
            launcher.stop(settings, MODES, "the tests")
            yield settings
        finally:
            launcher.stop_all(settings, "the tests are over")


def wait_for(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + SECONDS_MAX
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come in {SECONDS_MAX} s"
        time.sleep(0.2)


def wait_until_failed(settings: Settings, mode: str) -> str:
    """The name of the error that ended the mode."""
    wait_for(
        lambda: read_heartbeat(settings, mode).state is DriverState.FAILED, f"a failure of {mode}"
    )
    return read_heartbeat(settings, mode).error.name


def content(settings: Settings, table: str) -> list[str]:
    """All rows of a table, but for the times at which they were written."""
    rows = open_table(settings.table_uri(table)).to_pyarrow_table()
    kept = rows.drop_columns([name for name in WRITTEN_WHEN if name in rows.column_names])
    return sorted(map(repr, kept.to_pylist()))


def rebuild(settings: Settings, mode: str) -> subprocess.CompletedProcess[str]:
    """By the command: this process may have a Spark session already, and can have one only."""
    return subprocess.run(
        [Path(sys.executable).with_name("lockstep"), "stream", "rebuild", mode],
        env={**os.environ, **settings_environment(settings)},
        capture_output=True,
        text=True,
        check=False,
    )


def change_an_order(settings: Settings, order_id: int) -> None:
    """It has each pizza twice then; and its first outbox row lies behind the second."""
    with connect(settings, Login.OWNER) as owner:
        with owner.transaction():
            owner.execute("UPDATE orders SET pizzas = pizzas || pizzas WHERE id = %s", [order_id])
            owner.execute("SELECT publish_order(%s, 'u')", [order_id])
        owner.execute(
            "UPDATE orders_outbox SET payload = payload WHERE order_id = %s AND op = 'c'",
            [order_id],
        )
        lying = "SELECT op FROM orders_outbox WHERE order_id = %s ORDER BY ctid"
        assert owner.execute(lying, [order_id]).fetchall() == [("u",), ("c",)]


def recreate_slot(settings: Settings) -> None:
    """What a connector does that finds its slot gone."""
    connector.stop(settings, connector_of(settings))
    preflight.drop_slot(connector_of(settings))
    connector.resume(settings, connector_of(settings))
    wait_for(lambda: preflight.slot_is_read(connector_of(settings)), "the connector's own new slot")


def test_another_database_at_the_address_is_named(stack: Settings, tmp_path: Path) -> None:
    with stack_of_its_own(tmp_path / "other", ["postgres"]) as other:
        passwords = {PASSWORD_FIELDS[role]: getattr(other, PASSWORD_FIELDS[role]) for role in Role}
        there = stack.model_copy(update={"postgres_port": other.postgres_port, **passwords})
        with pytest.raises(OtherDatabaseError, match=str(other.postgres_port)):
            claim(there, StreamMode.OUTBOX)
    claim(stack, StreamMode.OUTBOX)


def test_a_deleted_identity_is_named_and_a_rebuild_gives_the_same_tables(
    stack: Settings,
) -> None:
    tables = [table_of(stack.names, StreamMode.TEMPORAL), SOURCE_HISTORY]
    before = [content(stack, table) for table in tables]
    assert all(before)
    identity_path(stack, StreamMode.TEMPORAL).unlink()
    with pytest.raises(StreamIdentityMissingError, match="stream rebuild temporal"):
        claim(stack, StreamMode.TEMPORAL)
    done = rebuild(stack, StreamMode.TEMPORAL)
    assert done.returncode == 0, done.stderr
    for table, rows in zip(tables, before, strict=True):
        found = content(stack, table)
        assert sorted(set(found) ^ set(rows)) == [], table
        assert len(found) == len(rows), f"{table} has rows twice"
    claim(stack, StreamMode.TEMPORAL)


def test_a_slot_recreated_under_a_running_stream_stops_it_by_name(stack: Settings) -> None:
    launcher.start(stack, MODES, "the tests")
    moved = open_round(stack, 5, seed=1)
    orders = range(moved.order_ids[0], moved.order_ids[-1] + 1)
    for mode in MODES:
        wait_for(
            lambda mode=mode: current_totals(stack, mode, orders).orders == len(orders),
            f"the new orders in {mode}",
        )
    recreate_slot(stack)
    names = {wait_until_failed(stack, mode) for mode in MODES}
    assert names <= {SlotLostError.__name__, SlotRecreatedError.__name__}  # seen before, or after
    refused = rebuild(stack, StreamMode.OUTBOX)
    assert refused.returncode != 0
    assert "lockstep capture reset" in refused.stderr


def let_outbox_feed(settings: Settings) -> None:
    """The published table, by a switch that is approved without a proof."""
    with pytest.MonkeyPatch.context() as proved:
        proved.setattr(conditions, "require_verified", lambda *_: None)
        proved.setattr(conditions, "require_running", lambda *_: None)
        cutover.switch(settings, PLAN, StreamMode.OUTBOX, 1, "the tests", datetime.now(UTC))
    assert step(settings, PLAN).is_all


def test_capture_begun_again_asks_for_a_rebuild_which_holds_what_the_database_does(
    stack: Settings,
) -> None:
    let_outbox_feed(stack)
    change_an_order(stack, *open_round(stack, 1, seed=2).order_ids)
    before = current_totals(stack, StreamMode.OUTBOX)
    topic = read_remembered(stack, StreamMode.OUTBOX).topic_id
    reset_capture(stack, connector_of(stack))
    with pytest.raises(TopicRecreatedError, match=re.escape(topic)):
        claim(stack, StreamMode.OUTBOX)
    assert current_totals(stack, StreamMode.OUTBOX) == before
    done = rebuild(stack, StreamMode.OUTBOX)
    assert done.returncode == 0, done.stderr
    with pytest.raises(FeedReplacedError, match="publish switch batch"):
        step(stack, PLAN)
    with connect(stack, Login.OWNER) as owner:
        orders = [order_id for (order_id,) in owner.execute("SELECT id FROM orders")]
        assert current_totals(stack, StreamMode.OUTBOX) == totals_of(owner, orders)


def test_a_topic_recreated_under_a_running_stream_stops_it_by_name(stack: Settings) -> None:
    launcher.start(stack, [StreamMode.OUTBOX], "the tests")
    kafka = AdminClient(client(stack, KafkaUser.ADMIN))
    kafka.delete_topics([CHANGE_TOPIC])[CHANGE_TOPIC].result(SECONDS_MAX)
    # The query may end before Kafka has said for long enough that the topic is gone.
    error = wait_until_failed(stack, StreamMode.OUTBOX)
    assert error in (TopicRecreatedError.__name__, TopicUnknownError.__name__)
    with pytest.raises(TopicRecreatedError):
        claim(stack, StreamMode.OUTBOX)
