"""When each row that Flink wrote could be read, and what is refused."""

import json
import time
from pathlib import Path

import numpy as np
import pytest
from lockstep_tools.bench.peer.paimon import rows_of_snapshot, snapshot_file, visible_ns
from lockstep_tools.bench.peer.rows import (
    Rows,
    require_each_once,
    rows_of_records,
    rows_of_snapshots,
)
from lockstep_tools.bench.peer.sink_watch import SinkWatch
from lockstep_tools.bench.peer.topic_rows import committed
from lockstep_tools.errors import MeasurementError


def snapshot(rows: int) -> str:
    return json.dumps({"version": 3, "commitKind": "APPEND", "totalRecordCount": rows})


def test_a_snapshot_says_how_many_rows_its_table_has() -> None:
    assert rows_of_snapshot(snapshot(250)) == 250


@pytest.mark.parametrize("text", ["", "{", "[]", '{"id": 1}', '{"totalRecordCount": null}'])
def test_what_is_no_snapshot_is_refused(text: str) -> None:
    with pytest.raises(MeasurementError, match="a snapshot of Paimon's"):
        rows_of_snapshot(text)


def test_a_row_can_be_read_from_the_first_snapshot_that_has_it() -> None:
    # The second is a compaction, which adds none.
    assert visible_ns([2, 2, 5], [10, 20, 30], 5).tolist() == [10, 10, 30, 30, 30]
    assert visible_ns([], [], 0).tolist() == []


@pytest.mark.parametrize("totals", [[], [2, 4], [2, 6]])
def test_a_table_without_exactly_the_topic_s_rows_is_refused(totals: list[int]) -> None:
    with pytest.raises(MeasurementError, match="the topic 5"):
        visible_ns(totals, list(range(len(totals))), 5)


def test_rows_of_snapshots_are_the_topic_s_in_its_order() -> None:
    rows = rows_of_snapshots([1, 2], [2_000_000, 9_000_000], [(7, 1000), (5, 3000)])
    assert rows.order_ids.tolist() == [7, 5]
    assert rows.seconds.tolist() == pytest.approx([0.001, 0.006])


def test_rows_of_records_carry_their_own_commit() -> None:
    values = [b'{"order_id": 3, "committed_us": 1000}', b'{"order_id": 4, "committed_us": 2000}']
    rows = rows_of_records(values, [1_500_000, 2_500_000])
    assert rows.order_ids.tolist() == [3, 4]
    assert rows.seconds.tolist() == pytest.approx([0.0005, 0.0005])
    assert rows.since(2000).order_ids.tolist() == [4]


def test_only_inserted_rows_of_the_outbox_are_counted() -> None:
    def record(op: str, table: str) -> bytes:
        source = {"table": table, "ts_us": 12}
        return json.dumps({"op": op, "source": source, "after": {"order_id": 1}}).encode()

    assert committed(record("c", "orders_outbox")) == (1, 12)
    assert committed(record("r", "orders_outbox")) == (1, 12)
    assert committed(record("d", "orders_outbox")) is None
    assert committed(record("c", "orders")) is None
    assert committed(b'{"status": "END", "id": "orders_outbox"}') is None


@pytest.mark.parametrize("order_ids", [[1, 2], [1, 2, 2], [1, 2, 3, 3], [1, 2, 3, 4]])
def test_a_lost_or_repeated_row_is_refused(order_ids: list[int]) -> None:
    def rows(*ids: int) -> Rows:
        zeros = np.zeros(len(ids), np.int64)
        return Rows(np.array(ids, np.int64), zeros, zeros)

    require_each_once("Flink", rows(3, 1, 2), 3)
    with pytest.raises(MeasurementError, match="Flink wrote"):
        require_each_once("Flink", rows(*order_ids), 3)


def test_snapshots_are_stamped_as_they_come(tmp_path: Path) -> None:
    table = tmp_path / "later"
    with SinkWatch.of_paimon(table) as watch:
        began = time.time_ns()
        snapshot_file(table, 1).parent.mkdir(parents=True)
        (table / "written").write_text(snapshot(3), encoding="utf-8")
        (table / "written").replace(snapshot_file(table, 1))
        watch.wait_for(3, 10, lambda: True)
        with pytest.raises(MeasurementError, match="ended after 3 of 4 rows"):
            watch.wait_for(4, 10, lambda: False)
        with pytest.raises(MeasurementError, match="wrote 3 of 4 rows in 0 s"):
            watch.wait_for(4, 0, lambda: True)
        seen = watch.seen()
    assert seen.totals == [3]
    assert began <= seen.moments_ns[0] <= time.time_ns()
