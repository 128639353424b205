"""Who is notified of a failed task, by real receivers on loopback."""

import json
import logging
import socketserver
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from types import SimpleNamespace

import pytest
from lockstep.airflow_names import NOTIFY_CONNECTION
from lockstep.airflow_ops.notify import FailureNotifier

from tests.webhook import address, serving, webhook_server

VARIABLE = f"AIRFLOW_CONN_{NOTIFY_CONNECTION.upper()}"
CONTEXT = {
    "task_instance": SimpleNamespace(log_url="http://127.0.0.1:18080/dags/a/runs/b/tasks/c"),
    "exception": ValueError("[12:00, 13:00), outbox: fail: 1 value_mismatch <b>"),
}


class Mailbox(socketserver.StreamRequestHandler):
    """As much of SMTP as one letter needs."""

    def handle(self) -> None:
        self._say("220 mailbox")
        letter, reading = [], False
        for raw in self.rfile:
            line = raw.decode().rstrip("\r\n")
            if reading and line != ".":
                letter.append(line)
                continue
            if reading:
                self.server.received.append(("mail", "\n".join(letter)))
            reading = line.upper() == "DATA"
            if line.upper().startswith("QUIT"):
                self._say("221 bye")
                return
            self._say("354 go on" if reading else "250 well")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@pytest.fixture
def webhook() -> Iterator[ThreadingHTTPServer]:
    yield from serving(webhook_server())


@pytest.fixture
def mailbox() -> Iterator[socketserver.ThreadingTCPServer]:
    yield from serving(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mailbox))


def test_a_webhook_is_sent_what_failed_why_and_where(webhook, monkeypatch):
    connection = {"conn_type": "http", "host": f"{address(webhook)}/services/", "password": "T/B"}
    monkeypatch.setenv(VARIABLE, json.dumps(connection))
    FailureNotifier("parity failed").notify(CONTEXT)
    ((path, body),) = webhook.received
    assert path == "/services/T/B"
    for words in ("parity failed", "1 value_mismatch", "tasks/c"):
        assert words in body["text"]


def test_an_e_mail_goes_to_the_addresses_of_the_connection(mailbox, monkeypatch):
    extra = {"to": "ada@example.org", "from_email": "lockstep@example.org"}
    extra |= {"disable_ssl": True, "disable_tls": True}
    port = mailbox.server_address[1]
    connection = {"conn_type": "smtp", "host": "127.0.0.1", "port": port, "extra": extra}
    monkeypatch.setenv(VARIABLE, json.dumps(connection))
    FailureNotifier("parity failed").notify(CONTEXT)
    ((_, letter),) = mailbox.received
    assert "To: ada@example.org" in letter
    assert "parity failed" in letter


def test_without_a_connection_nothing_is_sent(monkeypatch, caplog):
    monkeypatch.delenv(VARIABLE, raising=False)
    caplog.set_level(logging.INFO)
    FailureNotifier("parity failed").notify(CONTEXT)


def test_a_receiver_that_fails_is_no_failure_and_no_secret_is_logged(
    webhook, monkeypatch, caplog, capsys
):
    host = f"{address(webhook)}/broken"
    connection = {"conn_type": "http", "host": host, "password": "hush-hush"}
    monkeypatch.setenv(VARIABLE, json.dumps(connection))
    FailureNotifier("parity failed").notify(CONTEXT)
    assert len(webhook.received) == 1
    assert "hush-hush" not in caplog.text + capsys.readouterr().out
