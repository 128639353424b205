"""One seeded history through everything, by the command line: what comes out is what was recorded.

This is what a change of the structure must leave as it is, to the row. The product is reached by
its command line and its Delta tables alone. Positions and transaction ids differ from run to run
and stand as ranks; times of the run, ids of runs and snapshots are left out.

When a change of the results is meant: look at the rows in the folder that a failure names, and
copy its digests.json or layout.json over the recorded one, in a commit of its own.
"""

import hashlib
import json
import os
import random
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import psycopg
import pytest
from deltalake import DeltaTable
from lockstep.cli import app
from lockstep.host.environment import settings_environment
from lockstep.settings import Settings
from pizzeria.names import Login
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from tests.conftest import Kept
from tests.e2e.conftest import stack_of_its_own
from tests.e2e.recorded_layout import layout_of
from tests.e2e.recorded_story import GROUPS, HOUR, HOURS_BEGIN, ORDERS_BEFORE, Story

pytestmark = [pytest.mark.e2e, pytest.mark.services, pytest.mark.spark]

LOCKSTEP = Path(sys.executable).parent / "lockstep"
SEED = 20261123
EARLIER, LAST = (
    ("--start", str(HOURS_BEGIN + first * HOUR), "--end", str(HOURS_BEGIN + end * HOUR))
    for first, end in ((0, 2), (2, 3))
)
PASSED, FAILED = 0, 1
"""How a comparison exits that came to verdicts."""
HISTORY = "pizzeria__history"
FRONTIER = "lockstep/frontier"
"""The application transaction that says how far a stream's table goes."""
RECORDED = Path(__file__).parent.parent / "data" / "recorded_run"
MODES = ("lookup", "outbox", "message", "temporal", "transaction")
COMMAND_SECONDS_MAX = 300
CAUGHT_UP_SECONDS_MAX = 120
ORDER = ("order_id", "order_time", "client_name", "table_name", "pizzas")
CHANGE = (*ORDER, "op", "tx_id", "commit_lsn", "is_raced", "look_up")
COLUMNS = {
    **{f"orders_enriched__{mode}": CHANGE for mode in MODES},
    "orders_enriched__batch": (*ORDER, "origin"),
    "orders_enriched": (*ORDER, "order_date", "order_hour", "fed_by", "position"),
    "dimension_changes": (
        *("dimension", "id", "op", "name", "price", "client_id", "table_id"),
        *("tx_id", "commit_lsn"),
    ),
}
"""What is recorded of each table, as far as it has these columns."""
RANKED = {"tx_id": "transactions", "commit_lsn": "positions", "position": "positions"}
NOT_RECORDED = ("committed_at", "snapshot", "wal_lsn", "table_assignment_id", "pizza_ids")
"""Of nested values, what differs from run to run; and what an order refers to, which is in the
source's history."""


class Product:
    """Its command line, in a home of the test's own, and its tables."""

    def __init__(self, settings: Settings, spark: SparkSession) -> None:
        self._spark = spark
        self._lakehouse = settings.home / "lakehouse"
        self._own = settings_environment(settings)
        self._environment = {**os.environ, **self._own, "COLUMNS": "300"}

    def call(self, *arguments: str, exits: Sequence[int] = (0,)) -> str:
        """What the command prints."""
        done = subprocess.run(
            [LOCKSTEP, *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS_MAX,
            check=False,
        )
        assert done.returncode in exits, (arguments, done.stdout, done.stderr)
        return done.stdout

    def call_here(self, *arguments: str, exits: Sequence[int] = (0,)) -> None:
        """The command in this process, whose Spark session it gets and does not end."""
        with pytest.MonkeyPatch.context() as patched:
            for name, value in self._own.items():
                patched.setenv(name, value)
            for module in ("lockstep.spark", "lockstep.parity.command"):
                patched.setattr(f"{module}.spark_session", lambda *_: Kept(self._spark))
            done = CliRunner().invoke(app, list(arguments))
        assert done.exit_code in exits, (arguments, done.output, done.exception)

    def compare(self, window: Sequence[str], *modes: str) -> None:
        """Each mode with the hourly run; the logs of those left out equal those of the others."""
        newest = max(row["commit_lsn"] for row in self.rows("orders_enriched__temporal"))
        wait_until(lambda: self._table(HISTORY).transaction_version(FRONTIER) >= newest)
        chosen = [argument for mode in modes for argument in ("--mode", mode)]
        self.call_here("parity", "check", *window, *chosen, exits=(PASSED, FAILED))

    def rows(self, name: str) -> list[dict]:
        if name == "dimension_changes":
            return [one for row in self.rows(HISTORY) if (one := dimension_change(row))]
        return self._table(name).to_pyarrow_table().to_pylist()

    def _table(self, name: str) -> DeltaTable:
        folder, _, _ = name.partition("__")
        return DeltaTable(str(self._lakehouse / folder / name))

    def wait_until_caught_up(self, published: int) -> None:
        """Until every change log has a row for each order and transaction, and the snapshot's."""
        rows = dict.fromkeys(MODES, published + ORDERS_BEFORE)
        rows |= dict.fromkeys(("outbox", "message"), published)
        for mode in MODES:
            wait_until(lambda mode=mode: len(self.rows(f"orders_enriched__{mode}")) >= rows[mode])


def dimension_change(row: Mapping[str, object]) -> dict | None:
    """A row of the source's history as it was when dimensions had a history alone; None of others.

    An id in the history is a JSON array of the key, a price is text.
    """
    schema, _, table = row["table"].partition(".")
    if schema != "public" or table == "orders":
        return None
    values = json.loads(row["row"] or "{}")
    found = {name: values.get(name) for name in ("name", "price", "client_id", "table_id")}
    kept = {name: row[name] for name in ("op", "tx_id", "commit_lsn")}
    return {"dimension": table, "id": json.loads(row["row_key"])[0], **found, **kept}


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + CAUGHT_UP_SECONDS_MAX
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def play(product: Product, settings: Settings, found: dict[str, list]) -> None:
    """The history, and what a team does with it; notes in `found` what tables do not keep."""
    with psycopg.connect(**settings.connection(Login.OWNER), autocommit=True) as owner:
        story = Story(owner, random.Random(SEED))
        story.before_the_capture()
        product.call("up", "--only", "connect")
        product.call("stream", "start", "all")
        product.wait_until_caught_up(story.published)
        for _ in range(GROUPS):
            story.group_of_orders()
            product.wait_until_caught_up(story.published)
            story.change_of_dimensions()
            story.group_of_orders()
            product.wait_until_caught_up(story.published)
        product.call_here("batch", "run", *EARLIER, "--read", "tables")
        product.call_here("batch", "run", *LAST, "--read", "view")
        found["published by the batch"] = published(product)
        story.change_of_dimensions()
        story.a_pizza_goes()
        story.group_of_orders()
        product.wait_until_caught_up(story.published)
        product.compare(EARLIER, "lookup", "outbox", "temporal")
        product.compare(LAST, "outbox")
        found["repair plan"] = plan_of(product.call("parity", "repair", *EARLIER, "--dry-run"))
        product.call("parity", "repair", *EARLIER, "--yes")
        story.group_of_orders()
        product.wait_until_caught_up(story.published)
        product.compare(EARLIER, "temporal")
        found["published after the repair"] = published(product)
        product.call("publish", "switch", "outbox", "--windows", "1", "--yes")
        found["published by outbox"] = published(product)
    found["ledger"] = ledger_of(product)


def published(product: Product) -> list[dict]:
    product.call("publish", "step")
    return product.rows("orders_enriched")


def plan_of(shown: str) -> list[tuple[str, str]]:
    """Which orders the plan changes, and how."""
    return re.findall(r"^│ *(\d+) *│ *(\w+)", shown, re.MULTILINE)


def ledger_of(product: Product) -> list[dict]:
    """Verdicts and classes in the order of the comparisons, and what differs in each."""
    differing = product.rows("orders_enriched__differences")
    lines = sorted(product.rows("orders_enriched__ledger"), key=lambda line: line["checked_at"])
    return [
        verdict_of(line, [one for one in differing if one["check_id"] == line["check_id"]])
        for line in lines
    ]


def verdict_of(line: Mapping[str, object], differing: Sequence[Mapping[str, object]]) -> dict:
    """The line's verdict and counts; of each row that differs its class, key and columns."""
    return {
        **{name: line[name] for name in ("window_start", "mode", "verdict")},
        **{name: n for name, n in line.items() if type(n) is int and is_count(name)},
        "differing": sorted(map(difference_of, differing), key=repr),
    }


def difference_of(one: Mapping[str, object]) -> list[object]:
    (order_id,) = json.loads(one["row_key"])
    return [one["class"], order_id, one["differing_columns"]]


def is_count(column: str) -> bool:
    return not column.endswith(("_lsn", "_version", "_frontier"))


def recorded(value: object, ranks: Mapping[str, Mapping[int, int]], name: str = "") -> object:
    """A value as it is recorded: JSON, the same in every run."""
    if name in RANKED and value is not None:
        return ranks[RANKED[name]].get(value, "of the cut")
    if isinstance(value, dict):
        return {k: recorded(v, ranks, k) for k, v in value.items() if k not in NOT_RECORDED}
    if isinstance(value, list | tuple):
        return [recorded(one, ranks) for one in value]
    return value.isoformat() if isinstance(value, datetime) else value


def ranks_of(tables: Mapping[str, list[dict]]) -> dict[str, dict[int, int]]:
    """Of each position and transaction its place among those of all tables."""
    rows = [row for name, table in tables.items() if name in COLUMNS for row in table]
    rows += [row["origin"] for row in rows if "origin" in row]
    values = {
        "positions": {row["commit_lsn"] for row in rows if "commit_lsn" in row},
        "transactions": {row["tx_id"] for row in rows if row.get("tx_id") is not None},
    }
    return {of: {one: n for n, one in enumerate(sorted(all_))} for of, all_ in values.items()}


def texts_of(
    name: str, rows: Sequence[object], ranks: Mapping[str, Mapping[int, int]]
) -> list[str]:
    """Each row as it is recorded, in an order that is the same in every run."""
    columns = COLUMNS.get("orders_enriched" if name.startswith("published") else name)
    if columns is not None:
        rows = [{column: row[column] for column in columns if column in row} for row in rows]
    texts = [json.dumps(recorded(row, ranks), default=str, sort_keys=True) for row in rows]
    return texts if name == "ledger" else sorted(texts)


def digest(file: Path, texts: Sequence[str]) -> dict[str, object]:
    """What is kept of the rows; they themselves are left in the file."""
    file.write_text("\n".join(texts))
    return {"rows": len(texts), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


@dataclass(frozen=True)
class Recorded:
    """What the run came to: digests of its rows and the layout of its home, as JSON's lines."""

    digests: list[str]
    layout: list[str]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Recorded:
    """The history played once; what is compared, and the rows behind it, stay in a folder."""
    results: dict[str, list] = {}
    home, seen = tmp_path_factory.mktemp("recorded"), tmp_path_factory.mktemp("recorded-run")
    with stack_of_its_own(home, ["postgres"]) as settings:
        product = Product(settings, spark)
        try:
            play(product, settings, results)
            layout = lines_of(layout_of(settings))
        finally:
            product.call("down")
    results |= {name: product.rows(name) for name in COLUMNS if name != "orders_enriched"}
    ranks = ranks_of(results)
    digests = {
        name: digest(seen / f"{name}.jsonl", texts_of(name, rows, ranks))
        for name, rows in results.items()
    }
    run = Recorded(lines_of(digests), layout)
    for name, lines in asdict(run).items():
        (seen / f"{name}.json").write_text("\n".join(lines) + "\n")
    print(f"what was found, and the rows: {seen}")  # noqa: T201 - shown when a test fails
    return run


def lines_of(value: object) -> list[str]:
    return json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False).splitlines()


def recorded_lines(name: str) -> list[str]:
    return (RECORDED / f"{name}.json").read_text(encoding="utf-8").splitlines()


def test_a_seeded_history_gives_the_rows_that_were_recorded(run: Recorded) -> None:
    assert run.digests == recorded_lines("digests")


def test_disk_kafka_and_postgres_look_as_was_recorded(run: Recorded) -> None:
    assert run.layout == recorded_lines("layout")
