"""Schemas compiled and random texts of them written, as several campaigns do it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import logitkit as lk
from logitkit.errors import ConfigurationError, UnsupportedSchema
from tests.json_schema.acceptance import BYTES, Accepted
from tests.json_schema.writing import TooLong, Writer

__all__ = ["compiled", "written"]


def compiled(schema: Any, kind: str, has_a_value: Callable[[], bool], tried: Counter[str]) -> lk.JsonSchema | None:
    """Return the constraint of a schema or a type; None if it is refused, which is counted.

    Args:
        schema: The schema or the type.
        kind: The name of what is counted, in the plural.
        has_a_value: Whether a valid value is known. If so, the schema must not be refused as one without any.
        tried: The numbers of comparisons.
    """
    try:
        return lk.JsonSchema(schema, BYTES)
    except UnsupportedSchema:
        tried[f"{kind} refused as unsupported or too large"] += 1
    except ConfigurationError as error:
        if "no value satisfies" not in str(error):
            raise
        assert not has_a_value(), "refused as one that no value satisfies, and a value does"
        tried[f"{kind} that no value satisfies"] += 1
    return None


def written(texts: Accepted, seed: int, count: int, tried: Counter[str]) -> Iterator[bytes]:
    """Yield some random texts; those for which no way to an end is found are only counted."""
    if texts.dfa is None:
        tried["schemas whose rows remember items"] += 1
        for number in range(count):
            try:
                yield texts.constraint.example(seed + number).encode()
            except ConfigurationError:
                # No way to an end was found among thousands.
                tried["texts given up, since their writer found no way to an end"] += 1
        return
    rng, writer = random.Random(seed), Writer(texts.dfa)
    for _ in range(count):
        try:
            yield writer.write(rng)
        except TooLong:
            tried["texts given up, since their writer found no way to an end"] += 1
