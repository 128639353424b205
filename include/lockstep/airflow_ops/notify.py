"""Reports a failed task: by a webhook (Slack's kind) or by e-mail, as a connection says.

Airflow's connection `lockstep_notify` decides; without it nothing is sent, and nothing fails:

- type `http`: POST {"text": …} to its host, which is a URL; a password is put behind it as the part
  of the path that is secret (Slack: host https://hooks.slack.com/services, password T…/B…/…).
- type `smtp`: an e-mail to the addresses in its extra, {"to": "…", "from_email": "…"}.
"""

from typing import TYPE_CHECKING, Any

import httpx
from airflow.sdk import BaseNotifier
from airflow.sdk.exceptions import AirflowNotFoundException

from lockstep.airflow_names import NOTIFY_CONNECTION

if TYPE_CHECKING:
    from airflow.sdk import Connection

SECONDS_MAX = 10.0


class FailureNotifier(BaseNotifier):
    """For on_failure_callback: says which task failed, why, and where its log is.

    what: what it means that it failed, a few words; templated.
    """

    template_fields = ("what",)

    def __init__(self, what: str) -> None:
        super().__init__()
        self.what = what

    def notify(self, context: dict[str, Any]) -> None:
        """Send it. A receiver that does not answer is a warning in the log, and no failure."""
        from airflow.sdk import Connection

        try:
            connection = Connection.get(NOTIFY_CONNECTION)
        except AirflowNotFoundException:
            self.log.info("nothing is sent: there is no connection %s", NOTIFY_CONNECTION)
            return
        task = context["task_instance"]
        text = f"{self.what}\n{context.get('exception')}\n{task.log_url}"
        try:
            _send(connection, self.what, text)
        except Exception as error:
            # Its text could have the secret part of the URL.
            self.log.warning("%s was not reached: %s", NOTIFY_CONNECTION, type(error).__name__)


def _send(connection: "Connection", subject: str, text: str) -> None:
    if connection.conn_type == "smtp":
        from airflow.providers.smtp.hooks.smtp import SmtpHook

        with SmtpHook(smtp_conn_id=NOTIFY_CONNECTION) as mail:
            to = connection.extra_dejson["to"]
            mail.send_email_smtp(to=to, subject=f"Lockstep: {subject}", html_content=_html(text))
        return
    url = "/".join(part.strip("/") for part in (connection.host, connection.password) if part)
    httpx.post(url, json={"text": text}, timeout=SECONDS_MAX).raise_for_status()


def _html(text: str) -> str:
    from markupsafe import escape

    return f"<pre>{escape(text)}</pre>"
