"""The SQL that keeps a fact's time as it is: it decides which window a row of the result is in.

A row whose time changed would be in two windows: in that of before until its hour is run again. So
a trigger refuses the change. Here is the SQL that an administrator runs; nothing is run.
"""

from psycopg import sql

from lockstep.pipeline.names import time_trigger
from lockstep.pipeline.plan import Plan

_FUNCTION = sql.SQL("""\
CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $lockstep$
BEGIN
    RAISE EXCEPTION USING ERRCODE = 'integrity_constraint_violation', MESSAGE = {message},
        HINT = 'Delete the row and insert it with the other time.';
END;
$lockstep$;""")
_TRIGGER = sql.SQL("""\
CREATE OR REPLACE TRIGGER {trigger} AFTER UPDATE ON {fact}
FOR EACH ROW WHEN (OLD.{time} IS DISTINCT FROM NEW.{time}) EXECUTE FUNCTION {function}();""")


def keeping_time_statements(plan: Plan) -> list[str]:
    """A trigger on the fact; none where the result's time is not a copy of one of its columns."""
    if plan.fact_time is None:
        return []
    fact, trigger = plan.fact.name, time_trigger(plan.name)
    values = {
        "function": sql.Identifier(fact.schema, trigger),
        "trigger": sql.Identifier(trigger),
        "fact": sql.Identifier(fact.schema, fact.name),
        "time": sql.Identifier(plan.fact_time),
        "message": sql.Literal(
            f"{plan.fact_time} of {fact} decides which window of pipeline {plan.name} a row is in: "
            "it cannot change"
        ),
    }
    return [_FUNCTION.format(**values).as_string(), _TRIGGER.format(**values).as_string()]
