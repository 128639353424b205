"""What is known of points serves other comparisons, whatever the numbers of their snapshots."""

import pyarrow as pa
import pytest
from lockstep.parity import known_results
from lockstep.parity.known_results import KnownResults
from lockstep.parity.points import Points
from lockstep.pipeline.query.at import AT_LSN
from lockstep.pipeline.row_keys import Key

CUT, EARLIER, LATER = "700:700:", "600:600:", "800:801:800"
Asked = list[tuple[Key, int]]


class Query:
    """Gives one row for each fact at each point but for fact 3; keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: Asked = []

    def __call__(self, asked: Asked) -> pa.Table:
        self.asked += asked
        rows = [(key[0], number, f"{key[0]} at {number}") for key, number in asked if key != (3,)]
        schema = pa.schema([("k0", pa.int64()), (AT_LSN, pa.int64()), ("c0", pa.string())])
        return pa.Table.from_pylist(
            [dict(zip(schema.names, row, strict=True)) for row in rows], schema
        )


def at(known: KnownResults, query: Query, points: Points, asked: Asked) -> dict:
    found = known.at(points, asked, query).to_pylist()
    assert len(found) == len({(row["k0"], row[AT_LSN], row["c0"]) for row in found})
    numbered = [row for row in found if row[AT_LSN] is not None]
    return {(row["k0"], row[AT_LSN]): row["c0"] for row in numbered}


def test_a_point_is_evaluated_once() -> None:
    known, query, points = KnownResults(), Query(), Points([CUT])
    cut = points.number(CUT)
    asked = [((1,), 5_000), ((1,), cut), ((2,), cut), ((3,), cut)]
    first = at(known, query, points, asked)
    assert first == {(1, 5_000): "1 at 5000", (1, cut): f"1 at {cut}", (2, cut): f"2 at {cut}"}
    assert at(known, query, points, asked) == first
    assert query.asked == asked
    at(known, query, points, [((1,), 6_000), *asked])
    assert query.asked == [*asked, ((1,), 6_000)]


def test_a_snapshot_is_found_again_by_another_number() -> None:
    known, query = KnownResults(), Query()
    looked_up = Points([EARLIER, CUT, LATER])
    asked = [((1,), looked_up.number(text)) for text in (EARLIER, CUT, LATER)]
    at(known, query, looked_up, asked)
    alone = Points([CUT])
    assert alone.number(CUT) != looked_up.number(CUT)
    found = at(known, query, alone, [((1,), alone.number(CUT))])
    assert found == {(1, alone.number(CUT)): f"1 at {looked_up.number(CUT)}"}
    assert query.asked == asked


def test_commits_alone_have_no_snapshot() -> None:
    assert at(KnownResults(), Query(), Points([]), [((1,), 7)]) == {(1, 7): "1 at 7"}
    assert at(KnownResults(), Query(), Points([]), []) == {}


def test_more_than_is_kept_is_evaluated_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_results, "POINTS_MAX", 3)
    known, query, points = KnownResults(), Query(), Points([])
    some, others = [((1,), 1), ((1,), 2)], [((2,), 1), ((2,), 2)]
    for asked in (some, others, some):
        assert at(known, query, points, asked).keys() == {(key[0], n) for key, n in asked}
    assert query.asked == [*some, *others, *some]


def test_what_is_known_takes_no_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(known_results, "POINTS_MAX", 3)
    known, query, asked = KnownResults(), Query(), [((1,), 1), ((1,), 2)]
    for _ in range(3):
        at(known, query, Points([]), asked)
    assert query.asked == asked
