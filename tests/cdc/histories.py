"""Records of the change topic for tests: single ones, and random histories as they may arrive."""

import random

from lockstep.cdc.records import Begin, Change, End, Record
from pizzeria.names import ORDERS

TRANSACTIONS = 29
COMMITS = [tx * 10 for tx in range(1, TRANSACTIONS + 1)]
"""The commit LSNs of a random history's transactions, in order."""


def change(tx: int | None, order: int, table: str = ORDERS, op: str = "c") -> Change:
    return Change(0, tx, order, table, op, None, (tx or 0) * 10, 0)


def end(tx: int, lsn: int, **counts: int) -> End:
    return End(0, tx, lsn, counts, lsn)


def placed(records: list[Record], start: int = 0) -> list[Record]:
    """The records at consecutive offsets."""
    return [
        type(record)(start + i, *(getattr(record, name) for name in record.__struct_fields__[1:]))
        for i, record in enumerate(records)
    ]


def interleaved(rng: random.Random) -> list[Record]:
    """A random history at offsets: within a few transactions records come in any order."""
    found: list[Record] = []
    left = list(range(1, TRANSACTIONS + 1))
    while left:
        together = [left.pop(0) for _ in range(min(len(left), rng.randint(1, 5)))]
        sizes = {tx: rng.randint(1, 5) for tx in together}
        records = [change(tx, n + 1) for tx in together for n in range(sizes[tx])]
        rng.shuffle(records)
        at = rng.randint(0, len(records))  # the ENDs come in commit order, which is all of theirs
        ends = [end(tx, tx * 10, orders=sizes[tx]) for tx in together]
        found += [*records[:at], *ends, *records[at:]]
    return placed(found)


def delivered(rng: random.Random) -> list[Record]:
    """A random history at offsets: changes out of place, ENDs too early, stretches that go back."""
    history: list[Record] = []
    for tx in range(1, TRANSACTIONS + 1):
        size = rng.randint(1, 5)
        body: list[Record] = [change(tx, n + 1) for n in range(size)]
        if rng.random() < 0.2:
            rng.shuffle(body)
        body.insert(0, Begin(0, tx))
        last = end(tx, tx * 10, orders=size)
        body.insert(rng.randint(1, len(body)) if rng.random() < 0.2 else len(body), last)
        history.extend(body)
    found: list[Record] = []
    at = 0
    while at < len(history):
        step = rng.randint(1, 20)
        found.extend(history[at : at + step])
        at += step
        if at < len(history) and rng.random() < 0.3:
            at = max(0, at - rng.randint(0, 30))
    return placed(found)
