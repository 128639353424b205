"""A pipeline made of a view: what is translated, what is chosen, and what a person must look at.

The definitions are as pg_get_viewdef writes them.
"""

import tomllib
from pathlib import Path

import pytest
from lockstep.pipeline.catalog import Catalog, Column, Table, TableName
from lockstep.pipeline.errors import CatalogError
from lockstep.pipeline.from_view import ForeignKey, NewPipeline, View, pipeline_of_view
from lockstep.pipeline.manifest import PipelineManifest

FILE = Path("include/sql/watered/query.sql")


def table(name: str, *columns: Column, key: str = "id") -> Table:
    return Table(TableName("plots", name), (Column("id", "integer", False), *columns), (key,))


CATALOG = Catalog(
    "garden",
    (
        table("beds", Column("name", "text"), Column("soil", "text")),
        table("gardeners", Column("name", "text")),
        table(
            "readings",
            Column("sensor_id", "integer", False),
            Column("gardener_id", "integer"),
            Column("checked_at", "timestamp with time zone"),
            Column("measured_at", "timestamp with time zone", False),
            Column("value", "numeric(10,2)"),
            Column("ticks", "integer"),
        ),
        table(
            "sensors",
            Column("bed_id", "integer", False),
            Column("built", "timestamp without time zone", False),
        ),
    ),
)


def refers(name: str, column: str, to: str) -> ForeignKey:
    return ForeignKey(TableName("plots", name), TableName("plots", to), {column: "id"})


FOREIGN_KEYS = (
    refers("readings", "sensor_id", "sensors"),
    refers("readings", "gardener_id", "gardeners"),
    refers("sensors", "bed_id", "beds"),
)


def made(definition: str, keeps_commit_times: bool = False) -> NewPipeline:
    name = TableName("plots", "watered")
    view = View("garden", name, definition, FOREIGN_KEYS, keeps_commit_times)
    return pipeline_of_view(view, CATALOG, FILE)


def manifest_of(pipeline: NewPipeline) -> PipelineManifest:
    return PipelineManifest.model_validate(tomllib.loads(pipeline.manifest))


def test_flat_joins_by_foreign_keys_become_left_joins_with_key_and_time() -> None:
    pipeline = made(
        """ SELECT r.id AS reading, r.checked_at, r.measured_at, b.name AS bed,
            r.value * 2::numeric AS amount
           FROM plots.readings r
             JOIN plots.sensors s ON s.id = r.sensor_id
             JOIN plots.beds b ON s.bed_id = b.id;""",
        keeps_commit_times=True,
    )
    assert pipeline.refused is None
    assert "LEFT JOIN plots.sensors AS s\n  ON s.id = r.sensor_id" in pipeline.query
    assert "LEFT JOIN plots.beds AS b\n" in pipeline.query
    assert "r.value * 2 AS amount" in pipeline.query
    manifest = manifest_of(pipeline)
    assert manifest.fact == TableName("plots", "readings")
    assert manifest.key == ("reading",)
    assert manifest.time == "measured_at"
    assert manifest.modes == ("lookup", "temporal", "transaction")
    assert "there is also checked_at" in pipeline.manifest


@pytest.mark.parametrize(
    "query",
    [
        "SELECT id, sensor_id, measured_at FROM plots.readings",
        "SELECT r.id, r.sensor_id, r.measured_at FROM plots.readings r",
        """SELECT readings.id, 1 + readings.ticks AS more, readings.sensor_id, readings.measured_at
        FROM plots.readings LEFT JOIN plots.gardeners g ON g.id = readings.gardener_id""",
    ],
)
def test_a_foreign_key_is_found_through_queries_that_copy_it(query: str) -> None:
    pipeline = made(
        f"WITH of_today AS ( {query} ) SELECT t.id, t.measured_at, s.built FROM of_today t "
        "JOIN plots.sensors s ON s.id = t.sensor_id;"
    )
    assert pipeline.refused is None
    assert "LEFT JOIN plots.sensors AS s" in pipeline.query
    manifest = manifest_of(pipeline)
    assert (manifest.key, manifest.time) == (("id",), "measured_at")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT r.id, r.sensor_id + 1 AS sensor_id FROM plots.readings r",
        "SELECT r.id, r.ticks AS sensor_id FROM plots.readings r",
        """SELECT g.id, r.sensor_id
        FROM plots.gardeners g LEFT JOIN plots.readings r ON r.gardener_id = g.id""",
    ],
)
def test_a_query_that_does_not_copy_it_from_a_row_that_is_there_is_none(query: str) -> None:
    pipeline = made(
        f"WITH of_today AS ( {query} ) SELECT t.id, s.built FROM of_today t "
        "JOIN plots.sensors s ON s.id = t.sensor_id;"
    )
    assert "LEFT JOIN plots.sensors AS s" not in pipeline.query


def test_a_join_that_may_find_nothing_stays_and_is_refused() -> None:
    pipeline = made(
        """ SELECT r.id, g.name FROM plots.readings r
             JOIN plots.gardeners g ON g.id = r.gardener_id;"""
    )
    assert "INNER JOIN could drop a fact" in str(pipeline.refused)
    marked = pipeline.query.splitlines()
    assert marked[marked.index("JOIN plots.gardeners AS g") - 1].startswith("-- TO CORRECT: INNER")


@pytest.mark.parametrize(
    "condition",
    [
        "s.id = r.sensor_id AND s.bed_id = 1",
        "s.id = r.id",
        "s.bed_id = r.sensor_id",
        "s.id > r.sensor_id",
        "s.bed_id = r.sensor_id AND s.id = r.sensor_id",
    ],
)
def test_only_the_columns_of_a_foreign_key_alone_always_find_a_row(condition: str) -> None:
    pipeline = made(f"SELECT r.id FROM plots.readings r JOIN plots.sensors s ON {condition};")
    assert "\nJOIN plots.sensors AS s\n" in pipeline.query


def test_a_join_behind_one_that_may_find_nothing_is_left_as_it_is() -> None:
    pipeline = made(
        """ SELECT r.id FROM plots.readings r
             LEFT JOIN plots.sensors s ON s.id = r.ticks
             JOIN plots.beds b ON b.id = s.bed_id;"""
    )
    assert "\nJOIN plots.beds" in pipeline.query


def test_case_and_coalesce_are_translated() -> None:
    pipeline = made(
        """ SELECT r.id, r.measured_at,
                CASE WHEN g.id IS NULL THEN 'none'::text ELSE upper(g.name) END AS who,
                COALESCE(g.name, '?'::text) AS name
           FROM plots.readings r
             LEFT JOIN plots.gardeners g ON g.id = r.gardener_id;"""
    )
    assert pipeline.refused is None
    assert "CASE WHEN g.id IS NULL THEN 'none' ELSE UPPER(g.name) END AS who" in pipeline.query
    assert "COALESCE(g.name, '?') AS name" in pipeline.query


def test_the_fact_is_found_through_with_queries() -> None:
    pipeline = made(
        """ WITH big AS ( SELECT r.id AS rid, r.sensor_id, r.measured_at FROM plots.readings r ),
            named AS ( SELECT s.id, b.name FROM plots.sensors s
                        JOIN plots.beds b ON b.id = s.bed_id )
         SELECT big.rid AS reading, big.measured_at AS at, named.name
           FROM big LEFT JOIN named ON named.id = big.sensor_id;"""
    )
    assert pipeline.refused is None
    manifest = manifest_of(pipeline)
    assert (manifest.fact.name, manifest.key, manifest.time) == ("readings", ("reading",), "at")


@pytest.mark.parametrize(
    ("definition", "why", "key"),
    [
        (
            """ SELECT r.id, q.n FROM plots.readings r
             LEFT JOIN LATERAL ( SELECT count(*) AS n FROM plots.beds b WHERE b.id = r.id) q
              ON true;""",
            "only tables, WITH queries and ( SELECT … ) AS name may be joined",
            'key = ["id"] # the copies of its primary key (id)',
        ),
        (
            "SELECT r.id AS reading, now() AS seen FROM plots.readings r;",
            "gives another result each time",
            'key = ["reading"] # the copies of its primary key (id)',
        ),
        (
            "SELECT r.sensor_id, avg(r.value) AS mean FROM plots.readings r GROUP BY r.sensor_id;",
            "these groups do not hold the key of plots.readings",
            "key = [] # TO CORRECT: name the copies of its key (id)",
        ),
    ],
)
def test_what_cannot_be_used_is_marked_above_its_line(definition: str, why: str, key: str) -> None:
    pipeline = made(definition)
    assert why in str(pipeline.refused)
    lines = pipeline.query.splitlines()
    [place] = [number for number, line in enumerate(lines) if line.startswith("-- TO CORRECT")]
    assert why in lines[place]
    assert place + 1 == pipeline.refused.position.line
    assert key in pipeline.manifest


def test_what_does_not_work_as_it_is_is_distinguished_from_what_is_to_be_looked_at() -> None:
    pipeline = made(
        """ SELECT 1 + r.id AS one, r.value / r.ticks AS mean, r.ticks / 2 AS half, now() AS seen,
            age(r.checked_at, r.measured_at) AS age FROM plots.readings r;"""
    )
    found = {note.split(":")[0]: note in pipeline.to_correct for note in pipeline.notes}
    assert found == {
        "r.ticks / 2": False,
        "AGE(r.checked_at, r.measured_at)": True,
    } | dict.fromkeys(("key", "time"), True)


def test_a_refused_expression_leaves_key_and_time_that_stand_plainly_in_the_query() -> None:
    pipeline = made("SELECT id AS reading, measured_at AS at, now() AS seen FROM plots.readings;")
    assert pipeline.refused is not None
    manifest = manifest_of(pipeline)
    assert (manifest.key, manifest.time) == (("reading",), "at")


def test_what_means_something_else_in_spark_is_marked() -> None:
    pipeline = made(
        """ SELECT r.id, r.measured_at, r.ticks / 2 AS half, r.value / 2 AS mean,
            round(r.ticks::numeric, 1) AS rounded FROM plots.readings r;"""
    )
    assert (
        "r.ticks / /* LOOK AT: of integers PostgreSQL drops the rest: write DIV */ 2"
        in pipeline.query
    )
    assert "r.value / 2 AS mean" in pipeline.query
    assert "CAST(r.ticks AS DECIMAL) /* LOOK AT: numeric without precision" in pipeline.query
    assert len(pipeline.notes) == 2


def test_a_result_without_key_or_time_says_so() -> None:
    pipeline = made("SELECT s.bed_id, s.built FROM plots.sensors s;")
    assert "key = [] # TO CORRECT: the result has no copy of the primary key (id)" in (
        pipeline.manifest
    )
    assert '# TO CORRECT: time_zones = { "plots.sensors.built" = "Area/City" }' in pipeline.manifest
    assert [note.split(":")[0] for note in pipeline.notes] == ["key", "view", "time_zones"]
    assert pipeline.to_correct == set(pipeline.notes)
    without = made("SELECT b.id, b.name FROM plots.beds b;")
    assert manifest_of(without).time is None
    assert any("made whole each time" in note for note in without.notes)


@pytest.mark.parametrize(
    ("built", "view"),
    [("s.built", None), ("s.built AT TIME ZONE 'Europe/Berlin'::text", "plots.watered")],
)
def test_a_view_that_shows_a_local_time_is_not_read_by_the_hourly_run(
    built: str, view: str | None
) -> None:
    pipeline = made(f"SELECT s.id, s.bed_id, {built} AS built_at FROM plots.sensors s;")
    assert pipeline.refused is None, pipeline.query
    manifest = manifest_of(pipeline)
    assert (manifest.view and str(manifest.view)) == view
    assert ('# view = "plots.watered" # TO CORRECT: built_at' in pipeline.manifest) is (not view)


@pytest.mark.parametrize(
    "definition", ["SELECT o.id FROM other.orders o;", "SELECT 1 AS one;", "VALUES (1);"]
)
def test_a_view_of_no_table_of_the_catalog_is_refused(definition: str) -> None:
    with pytest.raises(CatalogError, match="no table of the catalog of source garden"):
        made(definition)
