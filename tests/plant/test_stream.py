"""A source's streams over the real Debezium: each version of a table is a prefix of the history.

The driver is a process of its own, started as a person starts it. Services and driver are killed
while a writer works; PLANT_KILLS says how often each of them (a soak takes ten).
"""

import os
from pathlib import Path
from random import Random

import pytest
from deltalake import DeltaTable
from lockstep.devstack import control
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.names import table_path
from lockstep.settings import Settings
from lockstep_tools.soak import connector_restarts

from tests.plant.conftest import PlantProject
from tests.plant.driver import driver_of, until
from tests.plant.writer import PlantWriter, Written

pytestmark = pytest.mark.services
KILLS = int(os.environ.get("PLANT_KILLS", "1"))
MODES = (Mode.TEMPORAL, Mode.TRANSACTION)
ROWS_BETWEEN_KILLS = 20
TRANSACTIONS_AT_ONCE = 100
"""They have more rows of each pipeline than are waited for."""
RESTARTS_MAX = 5 * KILLS + 2
CONNECT, POSTGRES, DRIVER = "connect", "postgres", "driver"


def change_log(project: PlantProject, path: str) -> DeltaTable | None:
    uri = project.settings.table_uri(path)
    return DeltaTable(uri) if DeltaTable.is_deltatable(uri) else None


def paths_of(project: PlantProject) -> list[str]:
    """The change logs of the pipeline's modes, and that of the second pipeline."""
    own = [project.plan.change_log(mode) for mode in MODES]
    return [*own, table_path(project.plant.second, Mode.TEMPORAL)]


def versions(project: PlantProject, table: DeltaTable) -> list[Written]:
    """The rows that came by a transaction, in the order of the commits."""
    names = project.plant
    rows = sorted(table.to_pyarrow_table().to_pylist(), key=lambda one: one["commit_lsn"])
    return [
        Written(
            one["tx_id"],
            one[names.reading_id],
            None
            if one["op"] == "d"
            else (one[names.sensor_name], one[names.city], one[names.amount]),
        )
        for one in rows
        if one["tx_id"] is not None
    ]


def require_prefixes(project: PlantProject, table: DeltaTable, written: list[Written]) -> int:
    """Each version that can still be read has whole transactions, in the order of commits."""
    numbers = {tx_id: at for at, tx_id in enumerate(dict.fromkeys(one.tx_id for one in written))}
    sizes = [0] * len(numbers)
    for one in written:
        sizes[numbers[one.tx_id]] += 1
    checked = 0
    for version in range(table.version() + 1):
        found: dict[int, int] = {}
        for tx_id in (
            DeltaTable(table.table_uri, version)
            .to_pyarrow_table(columns=["tx_id"])["tx_id"]
            .to_pylist()
        ):
            if tx_id is not None:
                found[numbers[tx_id]] = found.get(numbers[tx_id], 0) + 1
        prefix = range(len(found))
        assert [found.get(number) for number in prefix] == [sizes[number] for number in prefix], (
            version
        )
        checked += 1
    return checked


def row_count(project: PlantProject) -> int:
    """Of the change log that has the fewest; -1 while one is not there."""
    tables = [change_log(project, path) for path in paths_of(project)]
    if None in tables:
        return -1
    return min(table.to_pyarrow_table(columns=["tx_id"]).num_rows for table in tables)


def test_no_kill_of_driver_connect_or_postgresql_leaves_a_wrong_version(
    captured_plant: PlantProject, change_capture: Settings, tmp_path: Path
) -> None:
    seed = int(os.environ.get("PLANT_SEED", "3"))
    print(f"seed {seed}, {KILLS} kills each")  # noqa: T201 - shown when a test fails
    project, rng = captured_plant, Random(seed)
    targets = [DRIVER, CONNECT, POSTGRES] * KILLS
    rng.shuffle(targets)
    writer = PlantWriter(project, seed)
    project.plant.write_second(project.folder)
    command = ["source", "stream", project.plant.source]
    with driver_of(project, tmp_path, command, RESTARTS_MAX) as driver:
        until(lambda: row_count(project) == 0, driver)
        writer.start()
        for target in targets:
            rows = row_count(project)
            assert writer.failure is None, repr(writer.failure)
            writer.allow(TRANSACTIONS_AT_ONCE)
            until(lambda rows=rows: row_count(project) > rows + ROWS_BETWEEN_KILLS, driver)
            writer.allow(TRANSACTIONS_AT_ONCE)
            if target == DRIVER:
                driver.kill(rng.choice(["python", "jvm", "both"]))
            else:
                connector_restarts.kill(project.settings, target)
                control.up(change_capture, [CONNECT])
        writer.end()
        written = writer.written
        until(lambda: row_count(project) >= len(written), driver)
        assert driver.stop() == 0, driver.text()[-3000:]
    *own, second = (change_log(project, path) for path in paths_of(project))
    for table in own:
        found = versions(project, table)
        assert sorted(found, key=str) == sorted(written, key=str), table.table_uri
    columns = ["tx_id", project.plant.reading_id, "op"]
    rows = second.to_pyarrow_table(columns=columns).to_pylist()
    found = [(tx_id, key, op == "d") for tx_id, key, op in map(dict.values, rows)]
    assert sorted(found) == sorted((one.tx_id, one.key, one.row is None) for one in written)
    for table in (*own, second):
        checked = require_prefixes(project, table, written)
        print(f"{len(written)} changes, {checked} versions")  # noqa: T201 - of a soak
