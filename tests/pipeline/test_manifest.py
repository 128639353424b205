"""pipeline.toml: what is read of it, and the whole text of each refusal."""

import random
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import get_args

import pytest
from lockstep.pipeline.catalog import Catalog, Column, Table, TableName
from lockstep.pipeline.cross_checks import Around, read_manifest
from lockstep.pipeline.errors import ManifestError
from lockstep.pipeline.manifest import PipelineManifest, Schedule, Semantics
from lockstep.pipeline.modes import Mode, Tolerable
from lockstep.pipeline.source import SourceManifest
from lockstep.pipeline.toml_file import Strict, read_toml

FILE = Path("include", "sql", "readings_named", "pipeline.toml")
MANIFEST = """\
#:schema ../pipeline.schema.json
format_version = 1
sources = ["depot"]
semantics = "as_of_commit"
fact = "plant.readings"
key = ["reading_id"]
time = "read_at"
schedule = { every = "15m", delay = "90s" }
view = "readings_in"
modes = [
  "lookup",
  "temporal",
]
[tolerate]
lookup = ["lookup_race", "dimension_drift"]
temporal = ["dimension_drift"]
raced_share_max = 0.05
raced_rows_always = 3
[time_zones]
"plant.readings.at" = "Europe/Berlin"
"sensors.built" = "UTC"
"""
LEAST = """\
format_version = 1
sources = ["depot"]
semantics = "as_of_commit"
fact = "sensors"
key = ["id"]
"""
LOCAL = "timestamp(3) without time zone"
CATALOG = Catalog(
    "depot",
    (
        Table(
            TableName("plant", "readings"),
            (Column("id", "bigint"), Column("at", LOCAL), Column("sent", "plant.moment")),
            ("id",),
        ),
        Table(TableName("plant", "raw"), (Column("line", "text"), Column("at", LOCAL)), ()),
        Table(TableName("public", "sensors"), (Column("built", "plant.moment"),), ("built",)),
    ),
    domains={"plant.moment": "timestamp without time zone", "plant.price": "numeric"},
)
AROUND = Around({"depot": CATALOG, "other": None}, has_view_file=True)


def read(text: str, around: Around = AROUND) -> PipelineManifest:
    manifest, problems = read_manifest(read_toml(text, FILE), around)
    assert problems == ()
    return manifest


def problems_of(text: str, around: Around = AROUND) -> list[str]:
    """What is wrong with a text, without the file's name."""
    try:
        _, found = read_manifest(read_toml(text, FILE), around)
    except ManifestError as error:
        found = error.problems
    return [str(problem).removeprefix(f"{FILE}:") for problem in sorted(found)]


def changed(old: str, new: str) -> str:
    """The good manifest with one change."""
    assert MANIFEST.count(old) == 1
    return MANIFEST.replace(old, new)


def test_a_manifest_is_read_as_it_is_written() -> None:
    manifest = read(MANIFEST)
    assert manifest.sources == ("depot",)
    assert manifest.semantics is Semantics.AS_OF_COMMIT
    assert (manifest.fact, manifest.view) == (
        TableName("plant", "readings"),
        TableName("public", "readings_in"),
    )
    assert (manifest.key, manifest.time, manifest.children) == (("reading_id",), "read_at", ())
    assert manifest.schedule.every == timedelta(minutes=15)
    assert manifest.schedule.delay == timedelta(seconds=90)
    assert manifest.modes == (Mode.LOOKUP, Mode.TEMPORAL)
    assert manifest.time_zones["sensors.built"] == "UTC"


def test_tolerances_are_read_exactly() -> None:
    tolerate = read(MANIFEST).tolerate
    assert tolerate.of(Mode.LOOKUP) == (Tolerable.LOOKUP_RACE, Tolerable.DIMENSION_DRIFT)
    assert tolerate.of(Mode.TEMPORAL) == (Tolerable.DIMENSION_DRIFT,)
    assert tolerate.of(Mode.OUTBOX) == tolerate.of(Mode.BATCH) == ()
    assert tolerate.raced_share_max == Decimal("0.05")
    assert tolerate.raced_rows_always == 3


def test_the_least_manifest_has_the_batch_alone() -> None:
    manifest = read(LEAST, Around({"depot": CATALOG}, has_view_file=False))
    assert (manifest.modes, manifest.view, manifest.time) == ((), None, None)
    assert manifest.tolerate.raced_share_max == Decimal("0.01")
    assert manifest.tolerate.raced_rows_always == 10


def test_a_result_with_a_time_is_due_each_hour_and_five_minutes_and_one_without_is_not() -> None:
    without_view = Around({"depot": CATALOG}, has_view_file=False)
    schedule = read(f'time = "read_at"\n{LEAST}', without_view).schedule
    assert schedule == Schedule()
    assert (schedule.every, schedule.delay) == (timedelta(hours=1), timedelta(minutes=5))
    assert read(LEAST, without_view).schedule is None


def test_a_manifest_cannot_be_changed_once_it_is_read() -> None:
    with pytest.raises(ValueError, match="frozen"):
        read(MANIFEST).time = "other"


NOT_FOUND = "write the catalog again with `lockstep source add depot`"
NO_TABLE = "names no table: write `schema.name`, or `name` if it is in public"


@pytest.mark.parametrize(
    ("old", "new", "problem"),
    [
        # the file itself
        ("format_version = 1\n", "", "1: format_version: is missing: the format of this file: 1"),
        (
            "version = 1",
            "version = 7\nnew = 1",
            (
                "2: format_version: is 7, and this Lockstep reads 1: install one that reads 7, or "
                "write the file in format 1"
            ),
        ),
        (
            "schedule = {",
            "schedule {",
            "8: is not valid TOML: Expected '=' after a key in a key/value pair",
        ),
        # what this version has not
        (
            '["depot"]',
            '["depot", "other"]',
            "3: sources: names 2 sources: this version reads exactly one, name one",
        ),
        (
            '["depot"]',
            "[]",
            "3: sources: names 0 sources: this version reads exactly one, name one",
        ),
        (
            "as_of_commit",
            "current",
            "4: semantics: current does not work in this version: write `as_of_commit`, which does",
        ),
        (
            "as_of_commit",
            "as_of_comit",
            '4: semantics: "as_of_comit" is not known: write `as_of_commit`',
        ),
        (
            '  "temporal",',
            '  "temporal",\n  "maintained",',
            "13: modes[2]: maintained is of the semantics current, which this version has not",
        ),
        # one key alone
        (
            'fact = "plant.readings"\n',
            "",
            "1: fact: is missing: the table whose rows drive the pipeline",
        ),
        ("fact =", "view =", "9: is not valid TOML: Cannot overwrite a value"),
        ("plant.readings" + '"\n', 'a.b.c"\n', f'5: fact: "a.b.c" {NO_TABLE}'),
        ('"plant.readings"\n', "5\n", f"5: fact: 5 {NO_TABLE}"),
        ('"readings_in"', '"a\\n."', f'9: view: "a\\n." {NO_TABLE}'),
        (
            '["reading_id"]',
            "[]",
            "6: key: is empty: name the columns that identify a row of the result",
        ),
        ('["reading_id"]', '["a", "a"]', '6: key: has "a" twice: remove one'),
        ('["reading_id"]', '["a", ""]', "6: key[1]: is empty"),
        ('["reading_id"]', '"a"', "6: key: must be a list, and is a string"),
        ('"read_at"', "true", "7: time: must be a string, and is a boolean"),
        ('"read_at"', "0.5", "7: time: must be a string, and is a number"),
        ('"read_at"', "07:32:00", "7: time: must be a string, and is a date or time"),
        (
            '"15m"',
            '"7m"',
            (
                "8: schedule.every: must divide a day without rest, and be a minute or more: such "
                "as 15m, 1h"
            ),
        ),
        (
            '"15m"',
            '"0m"',
            (
                "8: schedule.every: must divide a day without rest, and be a minute or more: such "
                "as 15m, 1h"
            ),
        ),
        (
            '"90s"',
            '"1h30m"',
            (
                '8: schedule.delay: "1h30m" is no duration: write a number and s, m, h or d, such '
                "as 5m"
            ),
        ),
        (
            '"90s"',
            "90",
            "8: schedule.delay: 90 is no duration: write a number and s, m, h or d, such as 5m",
        ),
        (
            '{ every = "15m", delay = "90s" }',
            '"1h"',
            "8: schedule: must be a table, and is a string",
        ),
        ('  "lookup"', '  "batch", "lookup"', "11: modes[0]: batch is always there: remove it"),
        (
            '  "lookup"',
            '  "lokup", "lookup"',
            '11: modes[0]: "lokup" is not known: did you mean lookup?',
        ),
        ('  "lookup"', '  1, "lookup"', "11: modes[0]: must be a string, and is an integer"),
        ('  "lookup"', '  "lookup", "lookup"', '10: modes: has "lookup" twice: remove one'),
        (
            'temporal = ["dimension_drift"]',
            'temporal = ["lookup_race"]',
            "16: tolerate.temporal: has lookup_race, and only the mode lookup looks up: remove it",
        ),
        (
            'temporal = ["dimension_drift"]',
            'temporal = ["value_mismatch"]',
            (
                '16: tolerate.temporal[0]: "value_mismatch" is not known: there are: '
                "dimension_drift, lookup_race"
            ),
        ),
        (
            'temporal = ["dimension_drift"]',
            'temporal = ["dimension_drift", "dimension_drift"]',
            '16: tolerate.temporal: has "dimension_drift" twice: remove one',
        ),
        (
            "0.05",
            "1.5",
            "17: tolerate.raced_share_max: 1.5 is no share: write a number from 0 to 1",
        ),
        (
            "0.05",
            "nan",
            "17: tolerate.raced_share_max: NaN is no share: write a number from 0 to 1",
        ),
        (
            "always = 3",
            "always = -1",
            "18: tolerate.raced_rows_always: -1 is no number of rows: write an integer, 0 or more",
        ),
        (
            "[time_zones]",
            '[access]\n"Shop" = "write"\n[time_zones]',
            '20: access.Shop: "write" is not known: there are: read, run',
        ),
        (
            '"UTC"',
            '"Mars"',
            (
                '21: time_zones."sensors.built": "Mars" is no time zone: write one such as '
                "Europe/Berlin or UTC"
            ),
        ),
        (
            '"UTC"',
            '"localtime"',
            (
                '21: time_zones."sensors.built": "localtime" is no time zone: write one such as '
                "Europe/Berlin or UTC"
            ),
        ),
        (
            '"UTC"',
            '"Europe/Belin"',
            (
                '21: time_zones."sensors.built": "Europe/Belin" is no time zone: did you mean '
                "Europe/Berlin or Europe/Helsinki or Europe/Dublin?"
            ),
        ),
        (
            '"sensors.built"',
            "sensors.built",
            (
                '21: time_zones.sensors: is no time zone: write "schema.table.column" = '
                '"Area/City", in quotes'
            ),
        ),
        # against what is around it
        (
            '["depot"]',
            '["depott"]',
            (
                "3: sources[0]: there is no source depott: did you mean depot?; one is a folder of "
                "include/sources with a source.toml"
            ),
        ),
        (
            'fact = "plant.readings"',
            'fact = "plant.reading"',
            (
                "5: fact: source depot has no table plant.reading: did you mean plant.readings or "
                f"plant.raw?; if it is new in the database, {NOT_FOUND}"
            ),
        ),
        (
            'fact = "plant.readings"',
            'fact = "plant.raw"',
            (
                "5: fact: plant.raw has no primary key, and no column reading_id of `key`: give it "
                "a primary key, or let `key` be columns of it that identify a row"
            ),
        ),
        (
            '  "temporal",\n',
            "",
            "15: tolerate.temporal: temporal is not in `modes`: add it there, or remove this",
        ),
        (
            '"sensors.built"',
            '"sensor.built"',
            (
                '21: time_zones."sensor.built": source depot has no table public.sensor: did you '
                f"mean public.sensors?; if it is new in the database, {NOT_FOUND}"
            ),
        ),
        (
            '"sensors.built"',
            '"sensors.build"',
            (
                '21: time_zones."sensors.build": table public.sensors has no column build: did you '
                "mean built?"
            ),
        ),
        (
            '"sensors.built"',
            '"plant.readings.id"',
            (
                '21: time_zones."plant.readings.id": is of type bigint, and only `timestamp '
                "without time zone` needs one: remove it"
            ),
        ),
        (
            '"sensors.built"',
            '"built"',
            "21: time_zones.built: is no column: write `schema.table.column`, in quotes",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_line(old: str, new: str, problem: str) -> None:
    found = problems_of(changed(old, new))
    assert found == [problem]


def test_a_look_up_without_a_view_is_refused() -> None:
    text = changed('view = "readings_in"\n', "")
    assert problems_of(text, Around({"depot": CATALOG}, has_view_file=False)) == [
        "10: modes[0]: lookup reads rows from a view: name it by `view`, or remove lookup"
    ]


def test_mode_outbox_without_an_outbox_is_refused() -> None:
    text = changed('  "temporal",\n', '  "temporal",\n  "outbox",\n')
    assert problems_of(text) == [
        "13: modes[2]: outbox reads a table: name it by `outbox`, or remove outbox from here"
    ]


def test_a_view_file_without_a_view_is_refused() -> None:
    assert problems_of(LEAST) == [
        "1: view: is missing, and there is a view.sql: name the view that it makes"
    ]


def test_without_a_catalog_the_rest_is_still_checked() -> None:
    """A catalog that cannot be read is a problem of its source."""
    text = changed('"sensors.built"', '"built"').replace('"depot"', '"other"')
    assert problems_of(text) == [
        "21: time_zones.built: is no column: write `schema.table.column`, in quotes"
    ]


def test_a_fact_without_a_primary_key_may_have_a_key_of_its_own_columns() -> None:
    text = changed('fact = "plant.readings"', 'fact = "plant.raw"')
    assert problems_of(text.replace('"reading_id"', '"line", "at"')) == []


def test_all_problems_of_a_file_come_at_once_and_by_line() -> None:
    text = """\
sources = ["depott"]
semantics = "current"
facts = "plant.readings"
key = ["a"]
modes = ["lookup", "tmporal"]
[tolerate]
outbox = ["lookup_race"]
raced_rows = 3
[time_zones]
"plant.readings.id" = "UTC"
"""
    assert problems_of(text, Around({"depot": CATALOG}, has_view_file=False)) == [
        "1: fact: is missing: the table whose rows drive the pipeline",
        "1: format_version: is missing: the format of this file: 1",
        (
            "1: sources[0]: there is no source depott: did you mean depot?; one is a folder of "
            "include/sources with a source.toml"
        ),
        "2: semantics: current does not work in this version: write `as_of_commit`, which does",
        "3: facts: is no key of this table: did you mean fact?",
        '5: modes[1]: "tmporal" is not known: did you mean temporal?',
        "7: tolerate.outbox: has lookup_race, and only the mode lookup looks up: remove it",
        "8: tolerate.raced_rows: is no key of this table: did you mean raced_rows_always?",
    ]


def levels(model: type[Strict], path: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The path of each table of fixed keys in a model."""
    inner = [
        (name, choice)
        for name, field in model.model_fields.items()
        for choice in (field.annotation, *get_args(field.annotation))
        if isinstance(choice, type) and issubclass(choice, Strict)
    ]
    return [path, *(one for name, table in inner for one in levels(table, (*path, name)))]


def test_every_level_of_the_manifests_is_known_to_the_property() -> None:
    assert levels(PipelineManifest) == [(), ("schedule",), ("tolerate",)]
    assert levels(SourceManifest) == [(), ("roles",)]


PLACES = {(): "# top", ("schedule",): "# schedule", ("tolerate",): "# tolerate"}
WITH_PLACES = (
    MANIFEST.replace('schedule = { every = "15m", delay = "90s" }\n', "")
    .replace("format_version", "# top\nformat_version")
    .replace("[tolerate]\n", "[tolerate]\n# tolerate\n")
    .replace("[time_zones]", "[schedule]\n# schedule\n[time_zones]")
)


@pytest.mark.parametrize("path", levels(PipelineManifest))
def test_one_unknown_key_at_any_level_is_refused_and_named(path: tuple[str, ...]) -> None:
    assert problems_of(WITH_PLACES) == []
    line = WITH_PLACES[: WITH_PLACES.index(PLACES[path])].count("\n") + 1
    seed = random.randrange(2**32)
    rng = random.Random(seed)
    for _ in range(100):
        key = "x" + "".join(rng.choices("abekytm_-1", k=rng.randint(1, 8)))
        value = rng.choice(["1", '"x"', "[]", "{}", "[{ y = 1 }]", "1979-05-27"])
        [problem] = problems_of(WITH_PLACES.replace(PLACES[path], f"{key} = {value}"))
        start = f"{line}: {'.'.join((*path, key))}: is no key of this table: "
        assert problem.startswith(start), f"seed {seed}"


def test_an_unknown_key_that_needs_quotes_is_named_on_one_line() -> None:
    text = f'"no\\nkey" = 1\n{LEAST}'
    [problem] = problems_of(text, Around({"depot": CATALOG}, has_view_file=False))
    assert problem.startswith('1: "no\\nkey": is no key of this table: did you mean key?')
