"""Pipelines whose rows a shop can make up: the pizzeria's, and one with other names and key."""

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from random import Random

from lockstep.pipeline.catalog import Catalog, Column, Table, TableName, write_catalog
from lockstep.pipeline.folder import CATALOG_FILE, QUERY_FILE
from lockstep.pipeline.plan import Plan, plan_named, plan_of
from lockstep.pipeline.project import read_project
from lockstep.pipeline.project_files import PIPELINE_FILE, PIPELINES, SOURCE_FILE, SOURCES
from lockstep.pipeline.result import RESULT_FILE, write_result
from lockstep.pipeline.row_keys import Key
from pizzeria.names import MANIFEST

from tests.project import PROJECT_DIR

SOURCE, PIPELINE = "lab", "samples"
SAMPLES = Table(
    TableName("public", "Samples"),
    (
        Column("Batch No", "text", False),
        Column("part", "bigint", False),
        Column("taken", "timestamp with time zone"),
        Column("weight", "numeric(12,3)"),
        Column("remark", "text"),
    ),
    ("Batch No", "part"),
)
QUERY = """\
SELECT
    taken AS `Taken At`, part AS PART, weight AS `Weight kg`, `Batch No` AS `Lot "No"`, remark
FROM `Samples`
"""
COLUMNS = {
    "Taken At": "timestamp",
    "PART": "bigint",
    "Weight kg": "decimal(12,3)",
    'Lot "No"': "string",
    "remark": "string",
}
OF_PIPELINE = """\
format_version = 1
sources = ["lab"]
semantics = "as_of_commit"
fact = "Samples"
key = ["PART", 'Lot "No"']
modes = ["temporal"]
"""
OF_SOURCE = """\
format_version = 1
kind = "postgres"
host = "127.0.0.1"
port = 5432
database = "lab"
roles = { read = "reader", capture = "capture" }
"""
LOTS = ("it's", "Ü 2", "")


@dataclass(frozen=True)
class Shape:
    """A pipeline, and how its rows are made up.

    key: of the row that the tests call 1, 2, 3, …; number: the way back. values: by column, all but
    key and time. time: the column that holds when the row was made. text: a column of text.
    """

    plan: Plan
    key: Callable[[int], Key]
    number: Callable[[Key], int]
    values: Callable[[Random], dict]
    time: str
    text: str

    @property
    def has_windows(self) -> bool:
        return self.plan.result.time is not None

    def of_number(self, number: int) -> dict:
        """The row with its key alone, as a delete has it."""
        result = self.plan.result
        return dict.fromkeys(result.columns) | dict(zip(result.key, self.key(number), strict=True))

    def number_of(self, row: dict) -> int:
        return self.number(tuple(row[name] for name in self.plan.result.key))


def pizzeria() -> Shape:
    """Orders: a key of one number, a list of structs."""

    def values(random: Random) -> dict:
        price = Decimal(random.randrange(500, 2000)) / 100
        name = random.choice(("Anna", "Béla", None))
        pizzas = [{"pizza": "Salami", "price": price}] * random.randrange(1, 3)
        return {"client_name": name, "table_name": "Table 1", "pizzas": pizzas}

    return Shape(
        plan=plan_named(PROJECT_DIR, MANIFEST),
        key=lambda number: (number,),
        number=lambda key: key[0],
        values=values,
        time="order_time",
        text="client_name",
    )


def samples(folder: Path, *, has_time: bool = True) -> Shape:
    """Samples: a key of a text and a number, which are not the first columns, in this order."""

    def values(random: Random) -> dict:
        weight = random.choice((None, Decimal(random.randrange(10**9)) / 1000))
        return {"Weight kg": weight, "remark": random.choice((None, "", "wet", 'it\'s "new"'))}

    return Shape(
        plan=_plan_of_samples(folder, OF_PIPELINE + ('time = "Taken At"\n' if has_time else "")),
        key=lambda number: (LOTS[number % 3], number // 3 - 2),
        number=lambda key: (key[1] + 2) * 3 + LOTS.index(key[0]),
        values=values,
        time="Taken At",
        text="remark",
    )


def _plan_of_samples(folder: Path, manifest: str) -> Plan:
    """As a project's folder has it, with the lock that Spark's analysis would write."""
    source, pipeline = folder / SOURCES / SOURCE, folder / PIPELINES / PIPELINE
    files = {
        source / SOURCE_FILE: OF_SOURCE,
        source / CATALOG_FILE: write_catalog(Catalog(SOURCE, (SAMPLES,))),
        pipeline / PIPELINE_FILE: manifest,
        pipeline / QUERY_FILE: QUERY,
    }
    for file, text in files.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    version = plan_named(folder, PIPELINE).version
    (pipeline / RESULT_FILE).write_text(write_result(COLUMNS, PIPELINE, version))
    return plan_of(read_project(folder).pipeline(PIPELINE))


PIZZERIA = pizzeria()
