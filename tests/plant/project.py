"""A second pipeline, with no name of the pizzeria's: readings of sensors, which stand at sites.

Every name in it is a random word, made from a seed: schemas, tables, columns, source and pipeline.
The fact has a uuid key, and one dimension is found by a column that is not its key.
"""

from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from string import Template

from lockstep.pipeline.plan import Plan, plan_named
from lockstep.pipeline.project_files import PIPELINES
from lockstep.pipeline.result import RESULT_FILE, write_result
from lockstep.settings import Settings

LOGICAL = """
source pipeline schema database fact sensor site reader capture
id sensor_id value taken_at name serial factor site_code code city
reading_id sensor_name amount measured_at second
""".split()  # noqa: SIM905
LETTERS = "abcdefghijklmnopqrstuvwxyz"

SCHEMA = Template("""
CREATE SCHEMA $schema;
CREATE TABLE public.$site ($code text PRIMARY KEY, $city text);
CREATE TABLE $schema.$sensor (
    $id uuid PRIMARY KEY, $serial integer NOT NULL UNIQUE, $name text NOT NULL,
    $factor numeric(6,3), $site_code text
);
CREATE TABLE $schema.$fact (
    $id uuid PRIMARY KEY, $sensor_id uuid NOT NULL, $value numeric(12,3),
    $taken_at timestamptz NOT NULL
);
""")
QUERY = Template("""\
-- A reading, with what its sensor and the sensor's site were.
SELECT
    r.$id AS $reading_id,
    r.$taken_at AS $measured_at,
    s.$name AS $sensor_name,
    w.$city,
    CAST(r.$value * s.$factor AS decimal(18, 6)) AS $amount
FROM $schema.$fact AS r
LEFT JOIN $schema.$sensor AS s ON r.$sensor_id = s.$id
LEFT JOIN $site AS w ON s.$site_code = w.$code
""")
MANIFEST = Template("""\
format_version = 1
sources = ["$source"]
semantics = "as_of_commit"
fact = "$schema.$fact"
key = ["$reading_id"]
time = "$measured_at"
modes = ["temporal", "transaction"]

[tolerate]
temporal = ["dimension_drift"]
transaction = ["dimension_drift"]
""")
SECOND_QUERY = Template("SELECT $id AS $reading_id, $value AS $amount FROM $schema.$fact\n")
SECOND_MANIFEST = Template("""\
format_version = 1
sources = ["$source"]
semantics = "as_of_commit"
fact = "$schema.$fact"
key = ["$reading_id"]
modes = ["temporal"]
""")
SOURCE = Template("""\
format_version = 1
kind = "postgres"
host = "$host"
port = $port
database = "$database"
roles = { read = "$reader", capture = "$capture" }
""")


RESULT = {
    "reading_id": "string",
    "measured_at": "timestamp",
    "sensor_name": "string",
    "city": "string",
    "amount": "decimal(18,6)",
}
"""The result's columns by their logical names, as Spark types them."""


@dataclass(frozen=True)
class Plant:
    """names: the random word that stands for each logical name."""

    names: dict[str, str]

    @classmethod
    def of(cls, seed: int) -> "Plant":
        """The names of a seed; print it in the test that uses it."""
        rng = Random(seed)
        words: list[str] = []
        while len(words) < len(LOGICAL):
            word = "".join(rng.choices(LETTERS, k=9))
            words += [word] if word not in words else []
        return cls(dict(zip(LOGICAL, words, strict=True)))

    def __getattr__(self, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        try:
            return self.names[name]
        except KeyError:
            raise AttributeError(name) from None

    def sql(self, text: str) -> str:
        """A statement, `$fact` and the like replaced by the words."""
        return Template(text).substitute(self.names)

    def write(self, folder: Path, settings: Settings, catalog: str) -> None:
        """The project's folder with source and pipeline; catalog: the text of catalog.lock."""
        address = {"host": settings.postgres_host, "port": str(settings.postgres_port)}
        files = {
            f"sources/{self.source}/source.toml": SOURCE.substitute(self.names | address),
            f"sources/{self.source}/catalog.lock": catalog,
            f"sql/{self.pipeline}/pipeline.toml": MANIFEST.substitute(self.names),
            f"sql/{self.pipeline}/query.sql": QUERY.substitute(self.names),
        }
        self._write_texts(folder, files)

    def write_second(self, folder: Path) -> None:
        """A second pipeline of the source: readings alone, without a time."""
        self._write_texts(
            folder,
            {
                f"sql/{self.second}/pipeline.toml": SECOND_MANIFEST.substitute(self.names),
                f"sql/{self.second}/query.sql": SECOND_QUERY.substitute(self.names),
            },
        )
        columns = {self.reading_id: "string", self.amount: "decimal(12,3)"}
        text = write_result(columns, self.second, plan_named(folder, self.second).version)
        self._write_texts(folder, {f"sql/{self.second}/{RESULT_FILE}": text})

    def _write_texts(self, folder: Path, texts: dict[str, str]) -> None:
        for path, text in texts.items():
            file = folder / "include" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")

    def locked(self, plan: Plan, **more: str) -> Plan:
        """The plan with its result.lock; more: the types of columns that RESULT does not have."""
        columns = {self.names[name]: kind for name, kind in RESULT.items()} | more
        return replace(plan, result_lock=write_result(columns, plan.name, plan.version))

    def lock(self, folder: Path) -> None:
        """Write result.lock of the project's folder, as `lockstep pipeline lock` does."""
        text = self.locked(plan_named(folder, self.pipeline)).result_lock
        file = folder / PIPELINES / self.pipeline / RESULT_FILE
        file.write_text(text, encoding="utf-8")
