"""An hour of the hourly table, written as the hourly run writes it but without Spark."""

import uuid
from collections.abc import Callable

import psycopg
import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from lockstep.accounts import Role
from lockstep.cdc.cuts import exported_snapshot, mark_cut
from lockstep.cdc.run_commits import RunCommit
from lockstep.model.modes import ReadMode
from lockstep.model.window import Window
from lockstep.pipeline.names import cut_prefix
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.result_tables import HOURLY_PARTITION
from lockstep.repair.run import hourly_row
from lockstep.settings import Settings
from lockstep.sources.delta import open_table
from lockstep.sources.postgres import connect
from lockstep.sources.window_rows import rows_in
from pizzeria.names import MANIFEST, ORDERS_ENRICHED_BATCH, Login

from tests.quality.conftest import SCHEMA

HOUR = Window.parse("2024-02-28T12:00Z", "2024-02-28T13:00Z")


def run_hour(settings: Settings, window: Window = HOUR) -> RunCommit:
    """Replace the window's rows with what the database has of it now."""
    plan = plan_named(settings.project, MANIFEST)
    with connect(settings, Role.BATCH_READER) as reading, exported_snapshot(reading) as exported:
        with connect(settings, Role.BATCH_READER) as marking:
            cut = mark_cut(marking, exported, str(uuid.uuid4()), cut_prefix(plan.source))
        rows = [hourly_row(row, plan.result, cut) for row in rows_in(exported, plan, window)]
    commit = RunCommit(window, ReadMode.VIEW, len(rows), cut)
    write_deltalake(
        settings.table_uri(ORDERS_ENRICHED_BATCH),
        pa.Table.from_pylist(rows, SCHEMA),
        mode="overwrite",
        partition_by=[HOURLY_PARTITION],
        commit_properties=CommitProperties(custom_metadata={"userMetadata": commit.as_json()}),
    )
    return commit


def whole_rows(settings: Settings) -> dict[int, dict]:
    """Every column of every row of the hourly table, by order."""
    rows = open_table(settings.table_uri(ORDERS_ENRICHED_BATCH)).to_pyarrow_table().to_pylist()
    return {row["order_id"]: row for row in rows}


Shop = Callable[..., list]


@pytest.fixture
def shop(pizzeria: Settings) -> Shop:
    """Runs statements of the shop's, each a transaction; returns the last one's rows."""

    def say(*statements: str) -> list:
        found: list = []
        with psycopg.connect(**pizzeria.connection(Login.SHOP), autocommit=True) as connection:
            for statement in statements:
                cursor = connection.execute(statement)
                found = cursor.fetchall() if cursor.description else []
        return found

    return say


@pytest.fixture
def hour(pizzeria: Settings) -> Settings:
    """The small pizzeria, with an hour of it in the hourly table."""
    run_hour(pizzeria)
    return pizzeria
