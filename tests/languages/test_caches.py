"""Caches of schemas are bounded, and change no automaton."""

from __future__ import annotations

from itertools import count
from unittest import mock

import pytest

import logitkit as lk
from logitkit.compiler.nested_grammars import parts
from logitkit.languages import Language, dispatch, either, json_schema, sequence
from logitkit.languages import schemas as known_schemas
from tests.languages.vocabularies import BYTES

_fresh = count(1)


def language(first: int) -> Language:
    """Return calls of eight tools, whose schemas no other number has."""
    objects = [{"type": "object", "properties": {f"a{first + i}": {"type": "array"}}} for i in range(8)]
    return dispatch(
        {"<": sequence("<", either(*(sequence(str(i), json_schema(o)) for i, o in enumerate(objects))), ">")}
    )


@pytest.mark.parametrize("limit", [0, 20_000])
def test_small_caches_give_the_same_automata(limit: int) -> None:
    limits = [lk.Limits(states=300_000 + next(_fresh)) for _ in range(2)]
    expected = language(0).constraint(BYTES, limits=limits[0]).automaton.content_key
    caches = parts._known_parts._parts, known_schemas._known
    for cache in caches:
        cache.clear()
        cache.nbytes = 0
    with mock.patch.object(caches[0], "limit", limit), mock.patch.object(caches[1], "limit", limit):
        for first in range(0, 40, 8):
            found = language(first).constraint(BYTES, limits=limits[1]).automaton
            if not first:
                assert found.content_key == expected
            # One entry may be larger than the limit; it is forgotten with the next one.
            assert all(cache.nbytes <= limit or len(cache) == 1 for cache in caches)
