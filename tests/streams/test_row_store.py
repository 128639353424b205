"""Rows packed in memory are found as they were put, by key and by their values."""

import random
import resource
from decimal import Decimal

import pytest
from lockstep.errors import StreamError
from lockstep.streams.row_store import RowStore, Versions

PLACE = (1,)
SAME_HASH = (-1, -2)
"""Python's hash of both is -2: rows with these keys, or these values, are in one place."""
KEYS = [(key,) for key in (*SAME_HASH, 3, "three")]
VALUES = (*SAME_HASH, None, float("nan"), Decimal("1.50"), "text")


def store(rows: dict[tuple, Versions]) -> RowStore:
    found = RowStore([PLACE])
    for key, versions in rows.items():
        put(found, key, versions)
    return found


def put(found: RowStore, key: tuple, versions: Versions) -> None:
    assert found.change(key, lambda _: versions)


def fill(found: RowStore, mib: int) -> None:
    for key in range(mib):
        put(found, ("large", key), ((5, (key, "a" * 2**20)),))


def test_keys_of_one_hash_are_rows_of_their_own() -> None:
    rows = {(key,): ((5, (key, "a")), (7, None)) for key in SAME_HASH}
    found = store(rows)
    assert len({hash(key) for key in rows}) == 1
    assert {key: found.versions(key) for key in rows} == rows
    assert (len(found), dict(found.items())) == (2, rows)
    assert found.versions((3,)) == ()


def test_numbers_that_are_equal_are_one_key() -> None:
    assert store({(2,): ((5, (2, "a")),)}).versions((Decimal("2.0"),)) == ((5, (2, "a")),)


@pytest.mark.parametrize("_round", range(5))
def test_rows_are_found_by_what_any_of_their_versions_has(_round: int) -> None:
    seed = random.randrange(2**31)
    print(f"seed {seed}")  # noqa: T201 - shown when the test fails
    rng = random.Random(seed)
    found, rows = store({}), {}
    for _ in range(60):
        key = rng.choice(KEYS)
        rows[key] = tuple(
            (lsn, rng.choice([None, (*key, rng.choice(VALUES))]))
            for lsn in range(rng.randint(1, 3))
        )
        put(found, key, rows[key])
        assert len(found) == len(rows)
        assert found.count == sum(map(len, rows.values()))
        for value in VALUES:
            shown = "NaN" if value != value else value  # noqa: PLR0124 - NaN alone is not itself
            expected = {
                key
                for key, versions in rows.items()
                if value is not None
                and any(row is not None and str(row[1]) == str(value) for _, row in versions)
            }
            assert found.keys_by(PLACE, {(shown,)}) == expected, value


def test_a_file_that_cannot_grow_ends_all_use_of_the_rows() -> None:
    found = store({(1,): ((5, (1, "a")),)})
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (16 * 2**20, hard))
    try:
        with pytest.raises(StreamError, match=r"temporary file .* make room"):
            fill(found, mib=100)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    for ask in (
        lambda: found.versions((1,)),
        lambda: found.keys_by(PLACE, {("a",)}),
        lambda: list(found.items()),
        lambda: put(found, (1,), ((7, None),)),
    ):
        with pytest.raises(StreamError, match="temporary file"):
            ask()


def test_rows_that_do_not_fit_in_the_cache_are_found() -> None:
    rows = {(key,): ((5, (key, f"{key} " * 2**14)),) for key in range(100)}
    found = store(rows)
    assert dict(found.items()) == rows
    assert all(found.versions(key) == versions for key, versions in rows.items())
