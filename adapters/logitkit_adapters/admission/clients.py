"""The clients of a server, told apart by their address and their API key.

Other names that clients give themselves (`user`, `X-Request-Id`, `session_id`) say nothing: a client could take a new one for
each request.
"""

from __future__ import annotations

import hashlib
import ipaddress
from collections.abc import Sequence
from typing import NamedTuple

__all__ = ["NOBODY", "Client", "client_at"]

# The network that one customer of a provider usually has, and may take any address of.
IPV6_NETWORK = 64


class Client(NamedTuple):
    """A client. A key counts only among the clients of its address, because a server without keys takes any.

    Args:
        address: Its IP address; of IPv6, its network. Empty if it does not use HTTP.
        key: The SHA-256 of its API key, or empty.
    """

    address: str = ""
    key: bytes = b""


# The client of everything that does not come over HTTP.
NOBODY = Client()


def client_at(host: str, keys: Sequence[bytes]) -> Client:
    """Return the client at an address.

    Args:
        host: The address.
        keys: The values of the headers with its API key.
    """
    return Client(_network(host), hashlib.sha256(b"\n".join(keys)).digest() if keys else b"")


def _network(host: str) -> str:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    return str(ipaddress.ip_network((address, IPV6_NETWORK), strict=False)) if address.version == 6 else host
