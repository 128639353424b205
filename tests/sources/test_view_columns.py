"""A column of a view whose values would not stay as they are: what its author is to do."""

import pytest
from lockstep.sources.source_view import ViewColumn


@pytest.mark.parametrize(
    ("pg", "delta", "remedy"),
    [
        ("integer", "double", "write DIV for / in query.sql"),
        ("numeric", "int", "CAST it in the view"),
        ("timestamp without time zone", "timestamp", "make an instant of it in the view"),
    ],
)
def test_what_to_do_is_said_for_the_place_where_it_helps(pg: str, delta: str, remedy: str) -> None:
    column = ViewColumn("x", pg, delta)
    assert not column.is_readable
    assert column.remedy.startswith(remedy)
