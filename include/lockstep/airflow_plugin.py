"""What Lockstep registers in Airflow: its timetables, deadline and pages."""

from typing import ClassVar

from airflow.plugins_manager import AirflowPlugin

from lockstep.airflow_names import DATA_DOCS_URL, PARITY_URL
from lockstep.airflow_ops.deadlines import ScheduledRunDue
from lockstep.airflow_ops.timetables import HourlyWindowTimetable, WindowTimetable
from lockstep.airflow_ui import data_docs, parity_page


class LockstepPlugin(AirflowPlugin):
    """The timetable and deadline of runs, and the pages in the menu."""

    name = "lockstep"
    timetables: ClassVar[list] = [WindowTimetable, HourlyWindowTimetable]
    deadline_references: ClassVar[list] = [ScheduledRunDue]
    fastapi_apps: ClassVar[list] = [
        {"name": "Parity", "app": parity_page.create_app(), "url_prefix": PARITY_URL},
        {"name": "Data Docs", "app": data_docs.create_app(), "url_prefix": DATA_DOCS_URL},
    ]
    external_views: ClassVar[list] = [
        {
            "name": "Parity",
            "href": f"{PARITY_URL.removeprefix('/')}/",
            "destination": "nav",
            "url_route": "parity",
        },
        {
            "name": "Data Docs",
            "href": f"{DATA_DOCS_URL.removeprefix('/')}/",
            "destination": "nav",
            "url_route": "data-docs",
        },
    ]
