"""Address checks before a service starts on it: loopback only, its port free or who has it."""

import errno
import ipaddress
import socket
import time

import psutil

from lockstep.errors import ServiceError

PORT_MAX = 65535
LINGER_SECONDS_MAX = 10.0
LINGER_PAUSE_SECONDS = 0.2
NOBODY_KNOWN = "another process"


def require_free_port(host: str, port: int, variable: str) -> None:
    """Raise ServiceError unless the port can be bound on this loopback address.

    A killed process counts as ended before its last thread has let go of its port: one that nobody
    listens on is waited for. `variable` is the environment variable that chooses another port.
    """
    if not 0 < port <= PORT_MAX:
        raise ServiceError(f"port {port} is not between 1 and {PORT_MAX}; set {variable}")
    deadline = time.monotonic() + LINGER_SECONDS_MAX
    while (error := _bind_error(host, port)) is not None:
        holder = _holder(port)
        lingers = error.errno == errno.EADDRINUSE and holder == NOBODY_KNOWN
        if not lingers or time.monotonic() > deadline:
            raise ServiceError(_cannot_bind(host, port, variable, error, holder)) from error
        time.sleep(LINGER_PAUSE_SECONDS)


def require_loopback(host: str, variable: str) -> None:
    """Raise ServiceError unless the host is this machine's loopback: nobody else is served."""
    try:
        loopback = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        loopback = False
    if not loopback:
        raise ServiceError(
            f"{variable} is {host}, but the embedded stack listens on loopback only: unset it, or "
            "run your own service there and leave it out with `lockstep up --only …`"
        )


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _bind_error(host: str, port: int) -> OSError | None:
    with socket.socket(_family(host), socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, port))
        except OSError as error:
            return error
    return None


def _cannot_bind(host: str, port: int, variable: str, error: OSError, holder: str) -> str:
    if error.errno != errno.EADDRINUSE:
        return f"port {port} on {host} cannot be used: {error.strerror}; set {variable}"
    return f"port {port} on {host} is in use by {holder}: stop it, or set {variable} to a free port"


def _holder(port: int) -> str:
    """The listening process by name and pid, as far as this user may know."""
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:  # macOS tells only root
        return NOBODY_KNOWN
    for connection in connections:
        listening = connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        if listening and connection.pid:
            return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return NOBODY_KNOWN
