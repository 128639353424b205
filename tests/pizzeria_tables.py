"""The columns of the pizzeria's Delta tables, as its folder and the library make them."""

from lockstep.model.modes import StreamMode
from lockstep.pipeline.plan import plan_named
from lockstep.pipeline.result_tables import CHANGE_COLUMNS, HOURLY_COLUMNS, ORIGIN
from lockstep.streams.rows import change_log_columns as columns_of
from pizzeria.names import MANIFEST

from tests.project import PROJECT_DIR

RESULT = plan_named(PROJECT_DIR, MANIFEST).result
ORDERS_ENRICHED_BATCH_COLUMNS = {**RESULT.columns, **HOURLY_COLUMNS, **ORIGIN}
CHANGE_LOG_COLUMNS = {**RESULT.columns, **CHANGE_COLUMNS}


def change_log_columns(mode: StreamMode) -> dict[str, str]:
    return columns_of(RESULT, mode)
