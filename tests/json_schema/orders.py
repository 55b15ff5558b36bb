"""The texts of a value that a schema accepts, in any order of the members of objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from tests.json_schema.acceptance import Accepted
from tests.json_schema.canonical import canonical


def orders(value: Any, before: str, texts: Accepted) -> Iterator[str]:
    """Write a value after a text, in every order of the members of its objects with which the text can still become whole."""
    if not texts.goes_on(before.encode()):
        return
    if isinstance(value, dict):
        yield from _members(value, before + "{", texts)
    elif isinstance(value, list):
        begun: Iterable[str] = [before + "["]
        for i, item in enumerate(value):
            begun = [after for text in begun for after in orders(item, text + "," * (i > 0), texts)]
        yield from (text + "]" for text in begun)
    else:
        yield before + canonical(value)


def _members(left: dict[str, Any], before: str, texts: Accepted) -> Iterator[str]:
    if not left:
        yield before + "}"
    for name, value in left.items():
        rest = {other: one for other, one in left.items() if other != name}
        begin = f"{before}{'' if before.endswith('{') else ','}{canonical(name)}:"
        for after in orders(value, begin, texts):
            yield from _members(rest, after, texts)


def accepted_in_some_order(value: Any, schema: Any, texts: Accepted) -> bool:
    """Whether a value is accepted in some order of its members, if the schema negates something.

    A negation may ask for an order that `canonical` does not know. Other schemas must accept the order of `canonical`.
    """
    text = json.dumps(schema, default=str)
    return any(word in text for word in ('"not"', '"oneOf"', '"if"')) and any(
        texts.accepts(text.encode()) for text in orders(value, "", texts)
    )
