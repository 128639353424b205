"""Address checks before a service starts on it: loopback only, its port free or who has it."""

import errno
import ipaddress
import random
import socket
import time
from collections.abc import Iterable
from typing import NamedTuple, Self

import psutil

from lockstep.errors import ServiceError
from lockstep.settings import Settings

PORT_MAX = 65535
LINGER_SECONDS_MAX = 10.0
LINGER_PAUSE_SECONDS = 0.2
CHOSEN_PORTS = range(15_000, 32_000)
"""Below those that the system lends to outgoing connections."""


class Port(NamedTuple):
    """Where a service is to listen, and the environment variables that say so."""

    host: str
    number: int
    host_variable: str
    variable: str

    @classmethod
    def of(cls, settings: Settings, host: str, port: str) -> Self:
        """host, port: the fields of the settings that say it."""
        variables = (f"LOCKSTEP_{field.upper()}" for field in (host, port))
        return cls(getattr(settings, host), getattr(settings, port), *variables)


def require_usable(ports: Iterable[Port]) -> None:
    """Raise ServiceError unless all of them are of this machine's loopback, and free.

    It names each that is not, in a line of its own.
    """
    errors = []
    for port in ports:
        try:
            require_loopback(port.host, port.host_variable)
            require_free_port(port.host, port.number, port.variable)
        except ServiceError as error:
            errors.append(str(error))
    if errors:
        raise ServiceError("\n".join(dict.fromkeys(errors)))


def require_free_port(host: str, port: int, variable: str) -> None:
    """Raise ServiceError unless the port can be bound on this loopback address.

    A killed process counts as ended before its last thread has let go of its port: one that no
    process listens on is waited for. `variable` is the environment variable that chooses another
    port.
    """
    if not 0 < port <= PORT_MAX:
        raise ServiceError(f"port {port} is not between 1 and {PORT_MAX}; set {variable}")
    deadline = time.monotonic() + LINGER_SECONDS_MAX
    while (error := _bind_error(host, port)) is not None:
        holder = _holder(port)
        lingers = error.errno == errno.EADDRINUSE and holder is None
        if not lingers or time.monotonic() > deadline:
            raise ServiceError(_cannot_bind(host, port, variable, error, holder)) from error
        time.sleep(LINGER_PAUSE_SECONDS)


def free_ports(count: int) -> list[int]:
    """Ports of the loopback address that are free now, none of them one that may be lent.

    A client that keeps trying the port of a killed service could be lent that very port, and would
    then be connected to itself. Raises ServiceError when there are not so many.
    """
    found: list[int] = []
    for port in random.sample(CHOSEN_PORTS, len(CHOSEN_PORTS)):
        if _bind_error("127.0.0.1", port) is None:
            found.append(port)
        if len(found) == count:
            return found
    raise ServiceError(f"fewer than {count} free ports from {CHOSEN_PORTS[0]} on")


def require_loopback(host: str, variable: str) -> None:
    """Raise ServiceError unless the host is this machine's loopback: no other machine is served."""
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


def _cannot_bind(host: str, port: int, variable: str, error: OSError, holder: str | None) -> str:
    if error.errno != errno.EADDRINUSE:
        return f"port {port} on {host} cannot be used: {error.strerror}; set {variable}"
    user = holder or "another process"
    return f"port {port} on {host} is in use by {user}: stop it, or set {variable} to a free port"


def _holder(port: int) -> str | None:
    """The listening process by name and pid; None when there is none that this user may know."""
    try:
        connections = psutil.net_connections("tcp")
    except psutil.AccessDenied:  # macOS shows it to root only
        return None
    for connection in connections:
        listening = connection.status == psutil.CONN_LISTEN and connection.laddr.port == port
        if listening and connection.pid:
            return f"{psutil.Process(connection.pid).name()} (pid {connection.pid})"
    return None
