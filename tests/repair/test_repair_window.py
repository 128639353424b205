"""A repair merges just the orders that changed after the cut, in one commit, or does nothing."""

import json
import os
import subprocess
import sys
import textwrap

import psycopg
import pytest
from deltalake import DeltaTable
from lockstep.accounts import Role
from lockstep.cdc.run_commits import RepairCommit
from lockstep.errors import WriterBusyError
from lockstep.model.verdict import CheckStatus
from lockstep.quality import check_window
from lockstep.repair import plan as room
from lockstep.repair.changed_rows import How
from lockstep.repair.errors import RepairRefusedError
from lockstep.repair.plan import plan_repair
from lockstep.repair.run import repair_window
from lockstep.settings import Settings
from lockstep.sinks.local_lakehouse import sole_writer
from lockstep.sources.delta import open_table
from lockstep.sources.errors import PostgresUnavailableError
from lockstep.sources.hourly_runs import written_by
from pizzeria.names import ORDERS_ENRICHED_BATCH, Login

from tests.hourly_table import rows_of, version_of
from tests.repair.conftest import HOUR, Shop, run_hour, whole_rows

pytestmark = pytest.mark.services

NEW = (
    "INSERT INTO orders (table_assignment_id, order_time, pizzas) "
    f"VALUES (1, '{HOUR.start:%Y-%m-%d} 12:59:59.123456+00', '{{3,9999,3}}') RETURNING id"
)


def repair(settings: Settings, ids: set[int] | None = None) -> RepairCommit | None:
    """Approve the plan, or these orders of it, and repair."""
    digests = plan_repair(settings, HOUR).digests
    chosen = ids and {f"[{id_}]" for id_ in ids}
    approved = {key: one for key, one in digests.items() if chosen is None or key in chosen}
    return repair_window(settings, HOUR, approved, "Ada")


def change_three(settings: Settings, shop: Shop) -> dict[How, int]:
    """An order is updated, another cancelled, and a new one comes late."""
    updated, cancelled, *_ = sorted(whole_rows(settings))
    ((new,),) = shop(
        f"UPDATE orders SET pizzas = '{{2,1,2}}' WHERE id = {updated}",
        f"DELETE FROM orders WHERE id = {cancelled}",
        NEW,
    )
    return {How.NEW: new, How.UPDATED: updated, How.CANCELLED: cancelled}


def test_changed_orders_are_merged_and_no_other_row_changes(hour: Settings, shop: Shop) -> None:
    before = whole_rows(hour)
    ids = change_three(hour, shop)
    shop("UPDATE pizzas SET price = price + 1")

    plan = plan_repair(hour, HOUR)
    assert {one.how: one.key for one in plan.changed} == {
        how: f"[{id_}]" for how, id_ in ids.items()
    }
    done = repair(hour)

    after = whole_rows(hour)
    touched = set(ids.values())
    assert {i: r for i, r in after.items() if i not in touched} == {
        i: r for i, r in before.items() if i not in touched
    }
    merged = {row["order_id"]: row for row in rows_of(hour) if row["order_id"] in touched}
    run_hour(hour)
    run_again = {row["order_id"]: row for row in rows_of(hour) if row["order_id"] in touched}
    assert merged == run_again
    assert merged.keys() == {ids[How.NEW], ids[How.UPDATED]}
    written = {after[id_]["run_id"] for id_ in merged}
    assert written == {done.cut.run_id}
    assert after[ids[How.NEW]]["order_time"].microsecond == 123456
    assert [item["pizza"] is None for item in after[ids[How.NEW]]["pizzas"]] == [False, True, False]


def test_the_plan_tells_what_the_hour_run_again_would_change(hour: Settings, shop: Shop) -> None:
    ids = change_three(hour, shop)
    before = whole_rows(hour)
    assert plan_repair(hour, HOUR).others_rerun == 0
    others = [row for id_, row in before.items() if id_ not in ids.values()]
    pizza = others[0]["pizzas"][0]["pizza"]
    shop(f"UPDATE pizzas SET price = price + 1 WHERE name = '{pizza}'")
    dearer = [row for row in others if pizza in {item["pizza"] for item in row["pizzas"]}]
    plan = plan_repair(hour, HOUR)
    assert plan.others_rerun == len(dearer) > 0
    assert plan.others == len(before) - 2


def test_a_repair_again_changes_nothing(hour: Settings, shop: Shop) -> None:
    change_three(hour, shop)
    approved = plan_repair(hour, HOUR).digests
    assert repair_window(hour, HOUR, approved, "Ada") is not None
    version, rows = version_of(hour), whole_rows(hour)
    assert repair_window(hour, HOUR, approved, "Ada") is None
    assert plan_repair(hour, HOUR).changed == []
    assert (version_of(hour), whole_rows(hour)) == (version, rows)


def test_the_commit_says_who_approved_which_orders(hour: Settings, shop: Shop) -> None:
    run_id = written_by(open_table(hour.table_uri(ORDERS_ENRICHED_BATCH)), HOUR).run.cut.run_id
    orders = len(whole_rows(hour))
    ids = change_three(hour, shop)
    done = repair(hour)
    written = written_by(open_table(hour.table_uri(ORDERS_ENRICHED_BATCH)), HOUR)
    assert written.repairs == (done,)
    assert (done.approved_by, done.repaired_run_id) == ("Ada", run_id)
    assert set(done.row_keys) == set(ids.values())
    assert done.orders_after == written.rows == orders
    assert done.cut.marker_lsn > written.run.cut.marker_lsn
    assert written.last_cut == done.cut


def test_only_what_was_approved_is_merged_and_the_rest_can_follow(
    hour: Settings, shop: Shop
) -> None:
    ids = change_three(hour, shop)
    orders = len(whole_rows(hour))
    repair(hour, {ids[How.NEW]})
    assert len(whole_rows(hour)) == orders + 1
    assert {one.how for one in plan_repair(hour, HOUR).changed} == {How.UPDATED, How.CANCELLED}
    repair(hour)
    assert len(whole_rows(hour)) == orders
    assert plan_repair(hour, HOUR).changed == []


def test_an_order_that_changed_again_since_it_was_approved_stops_the_repair(
    hour: Settings, shop: Shop
) -> None:
    ids = change_three(hour, shop)
    approved = plan_repair(hour, HOUR).digests
    shop(f"UPDATE orders SET pizzas = '{{1}}' WHERE id = {ids[How.UPDATED]}")
    before = whole_rows(hour)
    with pytest.raises(RepairRefusedError, match=rf"1 of 3 rows \({ids[How.UPDATED]}\)"):
        repair_window(hour, HOUR, approved, "Ada")
    assert whole_rows(hour) == before
    repair(hour)
    assert plan_repair(hour, HOUR).changed == []


def test_what_was_in_progress_at_the_cut_is_found_also_behind_a_savepoint(
    pizzeria: Settings,
) -> None:
    with psycopg.connect(**pizzeria.connection(Login.SHOP)) as shop:
        (own,) = shop.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()
        shop.execute("SAVEPOINT s")
        ((order_id, row_xid),) = shop.execute(NEW + ", xmin::text::bigint").fetchall()
        run_hour(pizzeria)  # its snapshot lists the transaction, not the savepoint's
        shop.commit()
    assert row_xid != own % 2**32
    (found,) = plan_repair(pizzeria, HOUR).changed
    assert (found.key, found.how) == (f"[{order_id}]", How.NEW)
    assert repair(pizzeria) is not None
    assert order_id in whole_rows(pizzeria)


def test_a_later_run_supersedes_all_repairs(hour: Settings, shop: Shop) -> None:
    change_three(hour, shop)
    repair(hour)
    later = run_hour(hour)
    written = written_by(open_table(hour.table_uri(ORDERS_ENRICHED_BATCH)), HOUR)
    assert (written.run, written.repairs) == (later, ())


def test_a_repaired_window_passes_its_checks(hour: Settings, shop: Shop, tmp_path: object) -> None:
    orders = len(whole_rows(hour))
    shop(NEW)
    repair(hour)
    report = check_window(hour.model_copy(update={"home": tmp_path}), HOUR)
    assert report.status is not CheckStatus.FAIL, report.summary()
    assert report.rows == orders + 1


def test_a_database_that_does_not_answer_leaves_the_table(hour: Settings, shop: Shop) -> None:
    change_three(hour, shop)
    approved, version = plan_repair(hour, HOUR).digests, version_of(hour)
    with pytest.raises(PostgresUnavailableError):
        repair_window(hour.model_copy(update={"postgres_port": 1}), HOUR, approved, "Ada")
    assert version_of(hour) == version


def test_a_database_lost_on_the_way_leaves_the_table(
    hour: Settings, shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    change_three(hour, shop)
    approved, version = plan_repair(hour, HOUR).digests, version_of(hour)

    row_versions = room.row_versions

    def lose_it_and_read(*arguments: object) -> dict[tuple, int]:
        with psycopg.connect(**hour.connection(Role.ADMIN), autocommit=True) as admin:
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s",
                (str(Role.BATCH_READER),),
            )
        return row_versions(*arguments)

    monkeypatch.setattr(room, "row_versions", lose_it_and_read)
    with pytest.raises(PostgresUnavailableError):
        repair_window(hour, HOUR, approved, "Ada")
    assert version_of(hour) == version


def test_while_somebody_writes_the_table_a_repair_is_refused(hour: Settings, shop: Shop) -> None:
    change_three(hour, shop)
    approved = plan_repair(hour, HOUR).digests
    with sole_writer(hour, ORDERS_ENRICHED_BATCH), pytest.raises(WriterBusyError):
        repair_window(hour, HOUR, approved, "Ada")
    assert repair_window(hour, HOUR, approved, "Ada") is not None


KILLED = """
import json, os, signal, sys
from lockstep.model.window import Window
from lockstep.repair import run
from lockstep.settings import Settings
run.replace_rows = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
start, end, approved = sys.argv[1:]
run.repair_window(Settings.load(), Window.parse(start, end), json.loads(approved), "Ada")
"""


def test_killed_before_its_commit_it_has_changed_nothing_and_can_be_repeated(
    hour: Settings, shop: Shop
) -> None:
    change_three(hour, shop)
    approved, before = plan_repair(hour, HOUR).digests, whole_rows(hour)
    arguments = [HOUR.start.isoformat(), HOUR.end.isoformat(), json.dumps(approved)]
    killed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), *arguments],
        env=os.environ | {"LOCKSTEP_LAKEHOUSE": hour.lakehouse_uri},
        timeout=60,
        check=False,
    )
    assert killed.returncode == -9
    assert whole_rows(hour) == before
    assert repair_window(hour, HOUR, approved, "Ada") is not None


def test_rows_changed_by_other_hands_are_not_built_upon(hour: Settings, shop: Shop) -> None:
    change_three(hour, shop)
    table = DeltaTable(hour.table_uri(ORDERS_ENRICHED_BATCH))
    table.delete(f"order_id = {max(whole_rows(hour))}")
    with pytest.raises(RepairRefusedError, match="another writer"):
        plan_repair(hour, HOUR)


def test_an_older_database_is_not_merged(hour: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    found = written_by(open_table(hour.table_uri(ORDERS_ENRICHED_BATCH)), HOUR)
    far = found.run.cut.__class__("far", f"{2**40}:{2**40}:", 2**60, found.run.cut.taken_at)
    ahead = type(found.run)(HOUR, found.run.read_mode, found.run.orders_at_cut, far)
    monkeypatch.setattr(room, "written_by", lambda *_: type(found)(ahead))
    with pytest.raises(RepairRefusedError, match="is older than"):
        plan_repair(hour, HOUR)


def test_nothing_changed_is_nothing_to_do(hour: Settings) -> None:
    version = version_of(hour)
    assert plan_repair(hour, HOUR).changed == []
    assert repair(hour) is None
    assert version_of(hour) == version
