"""The certificates by which HTTPS addresses are believed, for all requests of a process."""

import ssl
from functools import cache

import httpx


@cache
def certificates() -> ssl.SSLContext:
    """As httpx reads them for each request: 60 ms of a core, also for an address without TLS.

    For what asks again and again: a service whether it answers, Connect how a connector is.
    """
    return httpx.create_ssl_context()
