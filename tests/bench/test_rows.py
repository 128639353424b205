"""The benchmark of rows in memory measures each store, in a process of its own."""

import pytest
from lockstep_tools.bench import rows
from lockstep_tools.bench.rows import SHAPES, STORES, measure

SHAPE = "three numbers"


def test_each_store_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "SHAPES", {SHAPE: SHAPES[SHAPE]})
    measured = measure(rows=20_000, rounds=1)
    assert set(measured) == {(SHAPE, store) for store in STORES}
    for one in measured.values():
        assert one.bytes_of_row > 0
        assert min(one.add_us, one.find_us) > 0
