"""What tests ask of Kafka Connect, by its REST interface."""

import httpx
from lockstep.capture.connector import MARK
from lockstep.settings import Settings
from lockstep.waiting import wait_until

SECONDS_MAX = 60.0
CONFLICT, SERVER_ERROR = 409, 500


def ask_connect(
    settings: Settings, method: str, path: str, body: dict | None = None
) -> httpx.Response:
    """Its answer, which is a success. While it rebalances, it is asked again.

    path: below /connectors.
    """
    answer = wait_until(
        lambda: httpx.request(
            method,
            f"{settings.connect_url}/connectors/{path}",
            json=body,
            auth=settings.connect_auth,
            timeout=30,
        ),
        SECONDS_MAX,
        0.3,
        is_done=lambda answer: answer.status_code not in (CONFLICT, SERVER_ERROR),
    )
    assert answer.is_success, answer.text[:1000]
    return answer


def wait_until_task_is_configured(settings: Settings, name: str) -> None:
    """Until the connector's task has its configuration, which Connect writes a moment later.

    What differs between the two is the mark, which is cleared at the end of a first start.
    """
    mark = ask_connect(settings, "GET", f"{name}/config").json()[MARK]

    def marks_of_tasks() -> list[str]:
        tasks = ask_connect(settings, "GET", f"{name}/tasks").json()
        return [task["config"][MARK] for task in tasks]

    found = wait_until(marks_of_tasks, SECONDS_MAX, 0.3, is_done=lambda marks: marks == [mark])
    assert found == [mark], f"{name} has the {MARK} {mark}, its tasks {found}"
