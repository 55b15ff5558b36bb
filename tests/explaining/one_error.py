"""The place of the only error that `jsonschema` reports for a value."""

from __future__ import annotations

from functools import reduce
from typing import Any, NamedTuple

from logitkit.json_schema.document import load
from logitkit.json_schema.pointer import plain, step
from logitkit.json_schema.references import References
from tests.json_schema.canonical import canonical
from tests.json_schema.judge import exact, judge


class OneError(NamedTuple):
    """An invalid value.

    Args:
        text: Its text, in the spelling of the schema.
        pointer: Where the keyword that refuses it stands in the schema.
        path: The value that the keyword refuses.
    """

    text: bytes
    pointer: str
    path: str


def only_error(schema: Any, value: Any) -> OneError | None:
    """Return the error of a value, or None if it has none, or several, or one without a keyword, of the schema `false`."""
    validator = judge(schema)
    errors = list(validator.iter_errors(exact(value)))
    if len(errors) != 1 or errors[0].validator is None:
        return None
    try:
        text = canonical(value, validator).encode()
    except AssertionError:  # the value is not written in one order only
        return None
    pointer = _location(load(schema), validator.schema, [*errors[0].absolute_schema_path])
    return OneError(text, pointer, reduce(step, errors[0].absolute_path, ""))


def legal_beginning(dfa: Any, text: bytes) -> bytes:
    """Return the longest beginning of a text that can be completed."""
    return text[: len([*dfa.endings(text)]) - 1]


def _location(schema: Any, judged: Any, path: list[str | int]) -> str:
    """Return where a keyword stands in the document: through references, which the library leaves out of its path.

    Args:
        schema: The schema.
        judged: The same with other spellings of patterns, as the library had it.
        path: The path of the error.
    """
    references, others = References.of(schema), References.of(judged)
    place, other = references.root, others.root
    for key in path:
        while isinstance(other.value, dict) and "$ref" in other.value and key not in other.value:
            place = references.target(place.value["$ref"], place)
            other = others.target(other.value["$ref"], other)
        name = list(place.value)[list(other.value).index(key)] if isinstance(other.value, dict) else key
        inside, other_inside = place.value[name], other.value[key]
        place, other = place.inside(inside, name), other.inside(other_inside)
    return plain(place.pointer)
