"""What a pipeline's query gave for facts at points, kept for the modes of a window judged next.

Most modes have the same rows of the same commits, and the cut is one for all: what the query gives
there is computed for the first of them.
"""

from collections.abc import Callable, Collection

import pyarrow as pa
import pyarrow.compute as pc

from lockstep.parity.points import Points
from lockstep.pipeline.query.at import AT_LSN
from lockstep.pipeline.row_keys import Key

POINTS_MAX = 50_000
"""Kept at once; with more of them everything is computed again."""
_SNAPSHOT = "snapshot"


class KnownResults:
    """Of one window of a pipeline, by its source's history, which has passed every point asked."""

    def __init__(self) -> None:
        self._asked: set[tuple[Key, int | str]] = set()
        self._found: list[pa.Table] = []

    def at(
        self,
        points: Points,
        asked: Collection[tuple[Key, int]],
        evaluate: Callable[[list[tuple[Key, int]]], pa.Table],
    ) -> pa.Table:
        """What the query gives for these facts, each at the point with this number, and maybe more.

        evaluate: gives the rows of the result for some of them, with the number under AT_LSN.
        Snapshots that `points` does not have are null under AT_LSN.
        """
        named = {one: (one[0], points.name(one[1])) for one in asked}
        new = [one for one in asked if named[one] not in self._asked]
        if len(self._asked) + len(new) > POINTS_MAX:
            self._asked.clear()
            self._found.clear()
            new = list(asked)
        if new or not self._found:
            self._found.append(_named(evaluate(new), points))
            self._asked.update(named[one] for one in new)
        return pa.concat_tables([_numbered(found, points) for found in self._found])


def _named(found: pa.Table, points: Points) -> pa.Table:
    """With the snapshots themselves, whose numbers are others at the next comparison."""
    numbers = found[AT_LSN].to_pylist()
    texts = [points.name(number) if number < 0 else None for number in numbers]
    return found.append_column(_SNAPSHOT, pa.array(texts, pa.string()))


def _numbered(found: pa.Table, points: Points) -> pa.Table:
    place = found.schema.get_field_index(AT_LSN)
    snapshots = found[_SNAPSHOT]
    texts, numbers = zip(*points.numbers.items(), strict=True) if points.numbers else ((), ())
    places = pc.index_in(snapshots, pa.array(texts, pa.string()))
    of_snapshot = pa.array(numbers, pa.int64()).take(places)
    number = pc.if_else(pc.is_null(snapshots), found[AT_LSN], of_snapshot)
    return found.set_column(place, AT_LSN, number).drop_columns(_SNAPSHOT)
