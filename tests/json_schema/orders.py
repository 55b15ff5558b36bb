"""The texts of a value that a schema's automaton accepts, in any order of the members of objects."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.nested_dfa import NestedDfa
from tests.automata.test_pushdown import run_bytes
from tests.json_schema.canonical import canonical


def orders(value: Any, before: str, dfa: NestedDfa) -> Iterator[str]:
    """Write a value after a text, in every order of the members of its objects with which the text can still become whole."""
    if run_bytes(dfa, before.encode())[0] == DEAD:
        return
    if isinstance(value, dict):
        yield from _members(value, before + "{", dfa)
    elif isinstance(value, list):
        texts: Iterable[str] = [before + "["]
        for i, item in enumerate(value):
            texts = [after for text in texts for after in orders(item, text + "," * (i > 0), dfa)]
        yield from (text + "]" for text in texts)
    else:
        yield before + canonical(value)


def _members(left: dict[str, Any], before: str, dfa: NestedDfa) -> Iterator[str]:
    if not left:
        yield before + "}"
    for name, value in left.items():
        rest = {other: one for other, one in left.items() if other != name}
        begin = f"{before}{'' if before.endswith('{') else ','}{canonical(name)}:"
        for after in orders(value, begin, dfa):
            yield from _members(rest, after, dfa)


def accepted_in_some_order(value: Any, schema: Any, dfa: NestedDfa) -> bool:
    """Whether an automaton accepts a value in some order of its members, if the schema negates something.

    A negation may ask for an order that `canonical` does not know. Other schemas must accept the order of `canonical`.
    """
    text = json.dumps(schema, default=str)
    return any(word in text for word in ('"not"', '"oneOf"', '"if"')) and any(
        dfa.accepts(text.encode()) for text in orders(value, "", dfa)
    )
