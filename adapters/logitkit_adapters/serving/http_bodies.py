"""Bodies of HTTP requests, limited in length."""

from __future__ import annotations

import json
from http import HTTPStatus
from typing import Any

from logitkit_adapters.serving.refusals import RefusedRequest
from logitkit_adapters.serving.requests import FIELDS

__all__ = ["MOST_BYTES", "check_length", "constrained_body", "without_nulls"]

# Room for a few pictures; a configuration may have far less.
MOST_BYTES = 32 * 2**20

# The fields that a request must have to be one of ours. Of an empty value, the error tells the client what is allowed.
OURS = ("tools", *FIELDS)


def check_length(given: str | int | None) -> int:
    """Return the length of a body from its header.

    Args:
        given: The value of `Content-Length`, or the number of bytes that have come.

    Raises:
        RefusedRequest: It is too long, or not a number.
    """
    text = str(given)
    if not (text.isascii() and text.isdecimal()):
        raise RefusedRequest(f"Content-Length is {given!r:.50}; give the number of bytes of the body")
    length = int(text[:20])
    if length > MOST_BYTES:
        raise RefusedRequest(
            f"the body has {length} bytes; allowed are up to {MOST_BYTES}", status=HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        )
    return length


def constrained_body(content: bytes) -> dict[str, Any] | None:
    """Return a body that has a field of ours, whatever its value is; None if the engine serves or refuses it alone.

    Args:
        content: The body as it came.

    Raises:
        RefusedRequest: Such a body has a key twice. JSON readers keep one of them, perhaps the one without a constraint.
        RecursionError: A body is nested more deeply than Python can read, so the engine cannot read it either.

    Example:
        >>> constrained_body(b'{"stop": "."}'), constrained_body(b'{"n": 1}')
        ({'stop': '.'}, None)
    """
    twice: list[str] = []

    def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            seen: set[str] = set()
            twice.extend(name for name, _ in pairs if name in seen or seen.add(name))  # type: ignore[func-returns-value]
        return found

    try:
        body = json.loads(content, object_pairs_hook=members)
    except ValueError:
        return None
    if not isinstance(body, dict) or not (any(body.get(name) is not None for name in OURS) or {*twice} & {*OURS}):
        return None
    if twice:
        raise RefusedRequest(f"an object in the body has the key {twice[0]!r:.80} twice; remove one")
    return body


def without_nulls(content: bytes) -> bytes:
    """Return a body without fields of ours that are null, which an engine may not know. Other bodies stay as they are.

    Args:
        content: A body for which `constrained_body` returns None.

    Example:
        >>> without_nulls(b'{"n":1,"logitkit":null}'), without_nulls(b'{"n":1}')
        (b'{"n": 1}', b'{"n":1}')
    """
    if b"null" not in content:
        return content
    try:
        body = json.loads(content)
    except ValueError:
        return content
    if not isinstance(body, dict) or not any(name in body and body[name] is None for name in OURS):
        return content
    return json.dumps({name: value for name, value in body.items() if name not in OURS or value is not None}).encode()
