"""A receiver of webhooks on loopback, which keeps what is posted to it."""

import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Webhook(BaseHTTPRequestHandler):
    """Keeps path and body of each request in the server's `received`; 500 below /broken."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.received.append((self.path, json.loads(body)))
        self.send_response(500 if self.path.startswith("/broken") else 200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def webhook_server() -> ThreadingHTTPServer:
    """On a free port; it answers while `serving` runs."""
    return ThreadingHTTPServer(("127.0.0.1", 0), Webhook)


def serving(server: socketserver.TCPServer) -> Iterator[socketserver.TCPServer]:
    """Serve until the iterator is closed or goes on."""
    server.received = []
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def address(server: socketserver.TCPServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"
