"""How an application publishes a pipeline's rows: a function of its database, and an outbox.

The application calls the function as the last statement of a transaction that changes a fact. It
puts the fact's row of the result, as JSON, into the outbox and into a logical message; modes
`outbox` and `message` read these. Here is the SQL that an administrator runs; nothing is run.

The function locks the fact's row first, FOR UPDATE, so that two transactions which add rows to one
fact publish one after the other; then what the query looks up, in the order of its look-ups (a
table behind those that lead to it), each by key, FOR SHARE. Only the next statement, with a
snapshot of its own (READ COMMITTED is required), reads the view: it sees what was committed before
this transaction commits, so that it publishes what a temporal join gives. A row that is not there
yet cannot be locked: so each look-up must follow a foreign key.

All that changes a child publishes its fact. So children need no lock, and the fact's is FOR NO KEY
UPDATE: two transactions that add lines to one fact, and hold it for the foreign key's check, would
wait for each other's end otherwise.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import psycopg
from psycopg import sql

from lockstep.pipeline.catalog import Catalog, TableName
from lockstep.pipeline.errors import PipelineError
from lockstep.pipeline.modes import Mode
from lockstep.pipeline.names import publish_function
from lockstep.pipeline.plan import Plan
from lockstep.pipeline.project import Source
from lockstep.pipeline.query.reach import Reach, join_edges
from lockstep.sources.database_catalog import read_foreign_keys
from lockstep.sources.database_state import read_publication
from lockstep.sources.preparation import add_tables_statement, reading_statements
from lockstep.sources.source_view import ViewColumn, view_columns, view_of
from lockstep.sources.view_rows import key_as_json, rows_as_json

PUBLISHED_MODES = (Mode.OUTBOX, Mode.MESSAGE)
_OUTBOX = sql.SQL("""\
CREATE TABLE IF NOT EXISTS {outbox} (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    published_at timestamptz NOT NULL DEFAULT now(),
    payload text NOT NULL
);""")
_FUNCTION = sql.SQL("""\
CREATE OR REPLACE FUNCTION {function}({parameters}, text)
RETURNS void LANGUAGE plpgsql VOLATILE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET timezone = 'UTC' AS $lockstep$
#variable_conflict use_column
DECLARE
    published text;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        RAISE EXCEPTION '{name} needs READ COMMITTED, not %',
            upper(current_setting('transaction_isolation'));
    END IF;
    IF {op} IS NULL OR {op} NOT IN ('c', 'u', 'd') THEN
        RAISE EXCEPTION '{name}: op must be c, u or d, not %', coalesce({op}, 'null');
    END IF;
    PERFORM FROM {fact} WHERE {is_fact} FOR {lock};
{locks}
    published := ({row});
    IF (published IS NULL) <> ({op} = 'd') THEN
        RAISE EXCEPTION '{name}: {view_text} has % row of this key, so op cannot be %',
            CASE WHEN published IS NULL THEN 'no' ELSE 'a' END, {op};
    END IF;
    IF published IS NULL THEN
        published := ({key});
    END IF;
{publish}
END;
$lockstep$;""")
_LOCK = sql.SQL("    PERFORM FROM {table} WHERE {rows} ORDER BY {key} FOR SHARE;")
_INSERT = sql.SQL("    INSERT INTO {outbox} (payload) VALUES (published);")
_MESSAGE = sql.SQL("    PERFORM pg_logical_emit_message(true, {prefix}, published);")

_Pair = tuple[TableName, str, TableName, str]
"""A column that refers to another: its table, itself, the other's table, the other."""


def publishing_statements(
    connection: psycopg.Connection, source: Source, plan: Plan, role: str
) -> list[str]:
    """The SQL that the pipeline's modes outbox and message need, in the order to run it.

    None where it has neither. connection: of `role`, the source's reader, in autocommit. Raises
    PipelineError when the pipeline has no view, no outbox for mode outbox, or a look-up without a
    foreign key; otherwise as view_columns does.
    """
    modes = [mode for mode in plan.manifest.modes if mode in PUBLISHED_MODES]
    if not modes:
        return []
    columns = view_columns(connection, plan, role)
    look_ups = _locked_look_ups(plan, _foreign_keys(connection))
    function = _function(plan, source.catalog, columns, modes, look_ups).as_string()
    made = [function, *_rights(plan, source.catalog)]
    if Mode.OUTBOX not in modes:
        return made
    publication = read_publication(connection, source.publication)
    is_published = publication is not None and plan.outbox in publication.tables
    roles = source.manifest.roles
    return [
        _OUTBOX.format(outbox=_identifier(plan.outbox)).as_string(),
        *(
            statement
            for name in dict.fromkeys((roles.read, roles.capture))
            for statement in reading_statements(name, [plan.outbox])
        ),
        *([] if is_published else [add_tables_statement(source.publication, [plan.outbox])]),
        *made,
    ]


def _foreign_keys(connection: psycopg.Connection) -> list[frozenset[_Pair]]:
    """The pairs of columns of each foreign key."""
    return [
        frozenset((key.table, column, key.refers_to, to) for column, to in key.columns.items())
        for key in read_foreign_keys(connection)
    ]


def _locked_look_ups(plan: Plan, foreign_keys: Collection[frozenset[_Pair]]) -> list[Reach]:
    """The query's look-ups, by the columns of foreign keys alone: a row found by another one could
    come to be found after the lock.

    Each follows a foreign key, or finds rows that refer to the fact, whose lock keeps others out.
    """
    joined = {pair for edge in join_edges(plan.query) for pair in _pairs(edge)}
    safe = {pair for pairs in foreign_keys if pairs <= joined for pair in pairs}
    back = {_reversed(pair) for pairs in foreign_keys for pair in pairs}
    found = []
    for step in plan.steps:
        kept = _pairs(step) & (safe | back if step.from_table == plan.fact.name else safe)
        if step.is_element or not kept:
            refers = f"{step.from_table}.{', '.join(step.from_columns)}"
            raise PipelineError(
                f"pipeline {plan.name}: {refers} refers to {step.table}."
                f"{', '.join(step.columns)} without a "
                "foreign key, so a row that is not there yet could come between publishing and "
                "the commit: add a FOREIGN KEY that is not deferrable, or leave modes outbox and "
                "message out"
            )
        pairs = [pair for pair in step.equalities if _pair(step, pair) in kept]
        columns, from_columns = zip(*pairs, strict=True)
        found.append(replace(step, columns=columns, from_columns=from_columns))
    return found


def _pairs(step: Reach) -> set[_Pair]:
    return {_pair(step, equality) for equality in step.equalities}


def _pair(step: Reach, equality: tuple[str, str]) -> _Pair:
    column, from_column = equality
    return step.from_table, from_column, step.table, column


def _reversed(pair: _Pair) -> _Pair:
    table, column, to_table, to_column = pair
    return to_table, to_column, table, column


def _function(
    plan: Plan,
    catalog: Catalog,
    columns: Sequence[ViewColumn],
    modes: Collection[Mode],
    look_ups: Sequence[Reach],
) -> sql.Composed:
    fact, name = catalog.table(plan.fact.name), publish_function(plan.name)
    by_name = {one.name: one for one in columns}
    key = [by_name[column] for column in plan.key]
    values = [sql.SQL(f"${place}") for place in range(1, len(key) + 2)]
    is_row = _equal([sql.Identifier(column.name) for column in key], values)
    rows = sql.SQL("{} WHERE {}").format(_identifier(view_of(plan)), is_row)
    publish = []
    if Mode.OUTBOX in modes:
        publish.append(_INSERT.format(outbox=_identifier(plan.outbox)))
    if Mode.MESSAGE in modes:
        publish.append(_MESSAGE.format(prefix=sql.Literal(plan.message_prefix)))
    return _FUNCTION.format(
        function=_function_name(plan),
        name=sql.SQL(name),
        parameters=_parameters(plan, catalog),
        op=values[-1],
        fact=_identifier(fact.name),
        is_fact=_equal([sql.Identifier(column) for column in fact.key], values),
        lock=sql.SQL(_fact_lock(plan, look_ups)),
        locks=sql.SQL("\n").join(_locks(plan, look_ups, catalog, values)),
        row=rows_as_json(values[-1], columns, rows),
        view_text=sql.SQL(str(view_of(plan)).replace("'", "''").replace("%", "%%")),
        key=key_as_json(key, values[:-1]),
        publish=sql.SQL("\n").join(publish),
    )


def _fact_lock(plan: Plan, look_ups: Sequence[Reach]) -> str:
    """UPDATE keeps out new rows that refer to the fact, too."""
    refer = [step for step in look_ups if {*step.from_columns} <= {*plan.fact.key}]
    others = [step for step in refer if step.table not in plan.children]
    is_enough = plan.children and all(step.from_table != plan.fact.name for step in others)
    return "NO KEY UPDATE" if is_enough else "UPDATE"


def _locks(
    plan: Plan, look_ups: Sequence[Reach], catalog: Catalog, values: Sequence[sql.SQL]
) -> Iterator[sql.Composed]:
    """A statement for each look-up, over the rows that those before it have locked.

    Who changes a child waits for the fact's lock, so its rows need none: it could only deadlock.
    """
    fact = catalog.table(plan.fact.name)
    locked = {fact.name: [_equal([sql.Identifier(column) for column in fact.key], values)]}
    for step in look_ups:
        rows = _led_to(step, locked[step.from_table])
        locked.setdefault(step.table, []).append(rows)
        key = map(sql.Identifier, catalog.table(step.table).key)
        if step.table in plan.children:
            continue
        yield _LOCK.format(table=_identifier(step.table), rows=rows, key=sql.SQL(", ").join(key))


def _led_to(step: Reach, from_rows: Sequence[sql.Composable]) -> sql.Composed:
    columns = sql.SQL(", ").join(map(sql.Identifier, step.columns))
    return sql.SQL("{columns} IN (SELECT {from_columns} FROM {from_table} WHERE {rows})").format(
        columns=columns if len(step.columns) == 1 else sql.SQL("({})").format(columns),
        from_columns=sql.SQL(", ").join(map(sql.Identifier, step.from_columns)),
        from_table=_identifier(step.from_table),
        rows=sql.SQL(" OR ").join(from_rows),
    )


def _rights(plan: Plan, catalog: Catalog) -> list[str]:
    """The function runs with its owner's rights, so that an application needs no others."""
    function = sql.SQL("{}({}, text)").format(_function_name(plan), _parameters(plan, catalog))
    revoke = sql.SQL("REVOKE ALL ON FUNCTION {} FROM PUBLIC;").format(function)
    grant = sql.SQL("GRANT EXECUTE ON FUNCTION {} TO").format(function)
    return [
        revoke.as_string(),
        f"-- For each role of an application that publishes: {grant.as_string()} …;",
    ]


def _parameters(plan: Plan, catalog: Catalog) -> sql.Composed:
    fact = catalog.table(plan.fact.name)
    types = (fact.column(column).type for column in fact.key)
    return sql.SQL(", ").join(map(sql.SQL, types))


def _function_name(plan: Plan) -> sql.Identifier:
    return sql.Identifier(plan.fact.name.schema, publish_function(plan.name))


def _equal(columns: Sequence[sql.Identifier], values: Sequence[sql.SQL]) -> sql.Composed:
    pairs = zip(columns, values, strict=False)
    return sql.SQL(" AND ").join(sql.SQL("{} = {}").format(*pair) for pair in pairs)


def _identifier(table: TableName) -> sql.Identifier:
    return sql.Identifier(table.schema, table.name)
