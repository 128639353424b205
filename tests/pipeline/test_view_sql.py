"""What a view's SQL becomes in Spark's: enums and domains, USING, times; and what is marked.

The definitions are as pg_get_viewdef writes them.
"""

from pathlib import Path

import pytest
from lockstep.pipeline.catalog import Catalog, Column, Table, TableName
from lockstep.pipeline.from_view import ForeignKey, NewPipeline, View, pipeline_of_view

FILE = Path("include/sql/lent/query.sql")
INSTANT = "timestamp with time zone"


def table(name: str, key: str, *columns: Column) -> Table:
    return Table(TableName("lending", name), (Column(key, "bigint", False), *columns), (key,))


CATALOG = Catalog(
    "library",
    (
        table("books", "book_id", Column("code", "lending.code"), Column("price", "numeric(8,2)")),
        table(
            "loans",
            "loan_id",
            Column("book_id", "bigint", False),
            Column("shelf", "integer"),
            Column("part", "integer"),
            Column("status", "lending.state", False),
            Column("loaned_at", INSTANT, False),
            Column("back_at", INSTANT),
            Column("due_at", INSTANT),
            Column("opened", "timestamp without time zone"),
            Column("due", "date"),
            Column("paid", "date"),
            Column("reader", "character varying(30)"),
            Column("note", "text"),
            Column("room", "character(2)"),
        ),
        table("shelves", "shelf_id", Column("shelf", "integer"), Column("part", "integer")),
    ),
    enums={"lending.state": ("out", "back", "lost"), 'lending."A mood"': ("good", "bad")},
    domains={
        "lending.code": "character varying(9)",
        "lending.state_now": "lending.state",
        "lending.amount": "numeric(8,2)",
    },
)
FOREIGN_KEYS = (
    ForeignKey(
        TableName("lending", "loans"), TableName("lending", "books"), {"book_id": "book_id"}
    ),
)


def made(definition: str) -> NewPipeline:
    view = View("library", TableName("lending", "lent"), definition, FOREIGN_KEYS, False)
    return pipeline_of_view(view, CATALOG, FILE)


def of(expression: str) -> NewPipeline:
    return made(f"SELECT l.loan_id, {expression} AS x FROM lending.loans l;")


def translated(expression: str) -> str:
    """The one line of the query that is made of an expression."""
    pipeline = of(expression)
    assert pipeline.refused is None, pipeline.query
    text = " ".join(pipeline.query.split())
    return text.removeprefix("SELECT l.loan_id, ").removesuffix(" AS x FROM lending.loans AS l")


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("l.status = 'lost'::lending.state", "l.status = 'lost'"),
        ("l.status = 'lost'::lending.state_now", "l.status = 'lost'"),
        ("'good'::lending.\"A mood\"", "'good'"),
        ("'x'::lending.code", "'x'"),
        (
            "l.status = ANY (ARRAY['lost'::lending.state, 'out'::lending.state])",
            "l.status IN ('lost', 'out')",
        ),
        ("l.status <> ALL (ARRAY['lost'::lending.state])", "NOT l.status IN ('lost')"),
        (
            "l.status::text = ANY (ARRAY['a'::character varying, 'b'::character varying]::text[])",
            "CAST(l.status AS STRING) IN ('a', 'b')",
        ),
        (
            "CASE l.status WHEN 'lost'::lending.state THEN 1 ELSE 0 END",
            "CASE l.status WHEN 'lost' THEN 1 ELSE 0 END",
        ),
        ("(l.shelf)::lending.amount", "CAST(( l.shelf ) AS DECIMAL(8, 2))"),
    ],
)
def test_enums_are_text_and_domains_what_they_are_over(expression: str, text: str) -> None:
    assert translated(expression) == text


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("l.reader::text = l.note", "l.reader = l.note"),
        ("(l.reader)::text = (l.reader)::text", "l.reader = l.reader"),
        ("l.note::character varying", "l.note"),
        ("l.room::text", "CAST(l.room AS STRING)"),
        ("l.shelf::text", "CAST(l.shelf AS STRING)"),
        ("COALESCE(l.room, '??'::bpchar)", "COALESCE(l.room, '??')"),
    ],
)
def test_a_text_that_is_cast_to_text_is_itself(expression: str, text: str) -> None:
    assert translated(expression).replace("( ", "").replace(" )", "") == text


def test_a_text_that_is_cut_to_a_length_stays_a_cast() -> None:
    assert "CAST(l.reader AS VARCHAR(2))" in of("l.reader::character varying(2)").query


def test_a_comparison_of_char_is_marked() -> None:
    pipeline = of("l.room = 'a'::bpchar")
    assert "LOOK AT: of char(n) PostgreSQL ignores blanks at the end" in pipeline.query
    assert pipeline.refused is None


def test_an_enum_that_is_compared_by_order_is_marked_and_stays() -> None:
    pipeline = of("l.status > 'out'::lending.state")
    assert "/* LOOK AT: an enum: PostgreSQL goes by the order of its labels" in pipeline.query
    assert pipeline.refused is None
    assert len(pipeline.notes) == 2


def test_a_type_that_the_catalog_does_not_know_is_refused_with_its_line() -> None:
    pipeline = of("'x'::lending.unknown")
    assert pipeline.refused is not None
    assert "lending" in str(pipeline.refused)


def test_using_becomes_on_and_the_merged_column_is_the_left_one() -> None:
    pipeline = made(
        """ SELECT l.loan_id, book_id, b.code, shelf, s.shelf_id
           FROM lending.loans l
             JOIN lending.books b USING (book_id)
             LEFT JOIN lending.shelves s USING (shelf, part);"""
    )
    assert pipeline.refused is None, pipeline.query
    text = " ".join(pipeline.query.split())
    assert "LEFT JOIN lending.books AS b ON l.book_id = b.book_id" in text
    assert "LEFT JOIN lending.shelves AS s ON l.shelf = s.shelf AND l.part = s.part" in text
    assert "SELECT l.loan_id, l.book_id, b.code, l.shelf, s.shelf_id FROM" in text
    assert 'key = ["loan_id"]' in pipeline.manifest


def test_using_of_a_with_query_becomes_on() -> None:
    pipeline = made(
        """ WITH priced AS ( SELECT b.book_id, b.price FROM lending.books b )
         SELECT l.loan_id, p.price FROM lending.loans l LEFT JOIN priced p USING (book_id);"""
    )
    assert pipeline.refused is None, pipeline.query
    assert "ON l.book_id = p.book_id" in pipeline.query


def test_using_of_a_column_that_is_not_known_stays_and_is_refused() -> None:
    pipeline = made("SELECT l.loan_id FROM lending.loans l LEFT JOIN lending.books b USING (isbn);")
    assert "USING is not supported here" in str(pipeline.refused)
    assert 'key = ["loan_id"]' in pipeline.manifest


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        (
            "EXTRACT(epoch FROM l.back_at - l.due_at)",
            "CAST(( UNIX_MICROS(l.back_at) - UNIX_MICROS(l.due_at) ) * 0.000001 AS DECIMAL(19, 6))",
        ),
        (
            "date_part('epoch'::text, COALESCE(l.back_at, l.loaned_at))",
            "CAST(UNIX_MICROS(COALESCE(l.back_at, l.loaned_at)) * 0.000001 AS DECIMAL(19, 6))",
        ),
        ("EXTRACT(hour FROM l.loaned_at)", "EXTRACT(HOUR FROM l.loaned_at)"),
        ("EXTRACT(dow FROM l.loaned_at)", "( DAYOFWEEK(l.loaned_at) - 1 )"),
        ("EXTRACT(isodow FROM l.due)", "EXTRACT(DAYOFWEEK_ISO FROM l.due)"),
        ("l.paid - l.due", "DATEDIFF(l.paid, l.due)"),
        ("l.loaned_at + '1 day'::interval", "l.loaned_at + INTERVAL '1' DAY"),
        ("l.loaned_at + '1 year 2 mons'::interval", "l.loaned_at + INTERVAL '14' MONTH"),
        (
            "l.loaned_at - '1 day 02:30:00'::interval",
            "l.loaned_at - INTERVAL '1 02:30:00' DAY TO SECOND",
        ),
        (
            "l.loaned_at + '-36:00:00'::interval",
            "l.loaned_at + INTERVAL '-1 12:00:00' DAY TO SECOND",
        ),
    ],
)
def test_times_are_written_as_spark_has_them(expression: str, text: str) -> None:
    assert translated(expression) == text


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("EXTRACT(epoch FROM l.opened)", "Spark's EXTRACT has no EPOCH; of two instants write"),
        ("EXTRACT(epoch FROM l.opened - l.loaned_at)", "Spark's EXTRACT has no EPOCH"),
        ("EXTRACT(century FROM l.loaned_at)", "Spark's EXTRACT has no CENTURY"),
        ("age(l.back_at, l.loaned_at)", "Spark has no function AGE"),
        ("num_nonnulls(l.due, l.paid)", "Spark has no function NUM_NONNULLS"),
        ("trunc(l.shelf, 1)", "Spark does not have all of it"),
        ("l.loaned_at + '1 mon 1 day'::interval", "has no CAST of PostgreSQL's to INTERVAL"),
        ("(l.loaned_at)::time", "has no CAST of PostgreSQL's to TIME"),
        ("'{a,b}'::text[]", "has no CAST of PostgreSQL's text to an array"),
    ],
)
def test_what_spark_does_not_have_is_marked_at_its_line_and_refused(
    expression: str, why: str
) -> None:
    pipeline = of(expression)
    assert why in str(pipeline.refused)
    lines = pipeline.query.splitlines()
    place = pipeline.refused.position
    assert lines[place.line - 1][place.column - 1 :].startswith("/* TO CORRECT: ")
    assert any(why in note for note in pipeline.notes)
    assert 'key = ["loan_id"]' in pipeline.manifest


def test_each_place_that_spark_does_not_have_is_marked() -> None:
    pipeline = made(
        "SELECT loan_id, age(back_at, loaned_at) AS a, EXTRACT(century FROM due) AS b "
        "FROM lending.loans;"
    )
    assert pipeline.query.count("TO CORRECT") == len(pipeline.notes) - 1 == 2


def test_what_cannot_be_marked_at_its_place_is_marked_above_the_query() -> None:
    """sqlglot writes no comment with some operators."""
    pipeline = of("('{}'::text #>> '{a,b}'::text[])")
    assert "Spark has no function" in str(pipeline.refused)
    assert pipeline.query.startswith("-- TO CORRECT: ")
    assert pipeline.refused.position.line == 1


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("ARRAY[1] && ARRAY[2]", "of arrays write ARRAYS_OVERLAP"),
        ("ARRAY[1] @> ARRAY[2]", "of arrays write SIZE"),
    ],
)
def test_operators_that_spark_does_not_have_are_refused_with_what_to_write(
    expression: str, why: str
) -> None:
    pipeline = of(expression)
    assert pipeline.refused is not None
    assert any(why in note for note in pipeline.notes)
    assert why in pipeline.query


def test_a_cast_that_would_cut_a_text_is_marked() -> None:
    pipeline = of("upper('abc'::text)::character varying(2)")
    assert "LOOK AT: Spark's CAST cuts no text to a length" in pipeline.query


def test_a_function_of_another_meaning_is_marked_and_not_refused() -> None:
    pipeline = of("regexp_replace('a'::text, 'b'::text, 'c'::text)")
    assert "/* LOOK AT: Spark replaces every match" in pipeline.query
    assert pipeline.refused is None
