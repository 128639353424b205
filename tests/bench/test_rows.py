"""The benchmark of rows in memory measures each store with each shape of row."""

from lockstep_tools.bench.rows import SHAPES, STORES, measure


def test_each_store_is_measured_with_each_shape() -> None:
    measured = measure(rows=20_000, rounds=1)
    assert set(measured) == {(shape, store) for shape in SHAPES for store in STORES}
    for one in measured.values():
        assert one.bytes_of_row > 0
        assert min(one.add_us, one.find_us) > 0
