"""A port is checked before a service is started on it, and who has it is named."""

import os
import socket

import pytest
from lockstep.errors import ServiceError
from lockstep.host import ports


def test_a_port_in_use_names_its_holder_and_the_variable_to_set() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(ServiceError) as refused:
            ports.require_free_port("127.0.0.1", port, "LOCKSTEP_KAFKA_PORT")
    assert f"port {port} on 127.0.0.1" in str(refused.value)
    assert f"(pid {os.getpid()})" in str(refused.value)
    assert "LOCKSTEP_KAFKA_PORT" in str(refused.value)


def test_all_that_cannot_be_used_are_named_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = listener.getsockname()[1]
        unusable = [
            ports.Port("127.0.0.1", taken, "A_HOST", "TAKEN_PORT"),
            ports.Port("127.0.0.1", 0, "A_HOST", "NO_PORT"),
            ports.Port("192.0.2.1", 1, "OTHER_HOST", "A_PORT"),
        ]
        with pytest.raises(ServiceError) as refused:
            ports.require_usable(unusable)
    assert all(name in str(refused.value) for name in ("TAKEN_PORT", "NO_PORT", "OTHER_HOST"))
    assert len(str(refused.value).splitlines()) == 3


def test_a_free_port_passes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    ports.require_free_port("127.0.0.1", port, "LOCKSTEP_KAFKA_PORT")


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_a_number_that_is_no_port_is_refused(port: int) -> None:
    with pytest.raises(ServiceError, match="is not between 1 and 65535"):
        ports.require_free_port("127.0.0.1", port, "LOCKSTEP_KAFKA_PORT")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_loopback_hosts_pass(host: str) -> None:
    ports.require_loopback(host, "LOCKSTEP_KAFKA_HOST")


@pytest.mark.parametrize("host", ["0.0.0.0", "kafka.example.com", "10.0.0.1", ""])  # noqa: S104
def test_other_hosts_are_refused(host: str) -> None:
    with pytest.raises(ServiceError, match="loopback only"):
        ports.require_loopback(host, "LOCKSTEP_KAFKA_HOST")
