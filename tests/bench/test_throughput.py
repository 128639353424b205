"""What a drain's rate is counted from."""

import numpy as np
from lockstep_tools.bench.throughput import warm_rate

SECOND = 1_000_000_000


def test_the_first_commit_counts_neither_its_rows_nor_its_time() -> None:
    commits = [(0, 1000), (2, 300), (4, 500)]
    visible_ns = np.repeat([at * SECOND for at, _ in commits], [rows for _, rows in commits])
    assert warm_rate(visible_ns) == (300 + 500) / 4


def test_one_commit_alone_has_no_warm_rate() -> None:
    assert warm_rate(np.full(1000, 7 * SECOND)) is None
