"""The Python processes in which Spark runs our functions: used again, task after task."""

import gc
from functools import cache


@cache
def spare_garbage_collection() -> None:
    """Have this worker's collector ignore what is loaded by now; only the first call counts.

    A worker collects its garbage after every task. With Arrow, pandas and ourselves loaded that
    takes 50 ms of a processor, more than most tasks of a stream, and never finds anything in them.
    """
    gc.freeze()
