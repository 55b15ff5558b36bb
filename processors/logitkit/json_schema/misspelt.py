"""Keys of schemas that look like misspelt keywords or say nothing where they are, and schemas without keywords.

The standard ignores what they say.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from difflib import SequenceMatcher
from functools import lru_cache
from string import ascii_uppercase
from typing import Any

from logitkit.json_schema.document import Json
from logitkit.json_schema.keywords import ASSERTIONS, OF_LIST, OF_NAMES, OF_ONE
from logitkit.json_schema.subschemas import subschemas

_NUMBER = (int, float, Decimal)
_SCHEMA = (dict, bool)

# The types of value that a keyword may have. A key whose value has another type says something else: `{"note": "..."}` is not a
# misspelt `not`. Keywords without an entry are objects or lists, or hold any value.
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum"), (*_NUMBER, bool)),
    **dict.fromkeys(("maximum", "minimum", "multipleOf"), _NUMBER),
    **dict.fromkeys(("maxContains", "maxItems", "maxLength", "maxProperties"), _NUMBER),
    **dict.fromkeys(("minContains", "minItems", "minLength", "minProperties"), _NUMBER),
    **dict.fromkeys(OF_ONE, _SCHEMA),
    **dict.fromkeys(OF_LIST, (list,)),
    **dict.fromkeys(OF_NAMES | {"dependentRequired"}, (dict,)),
    **dict.fromkeys(("$dynamicRef", "$recursiveRef", "$ref", "format", "pattern"), (str,)),
    **dict.fromkeys(("enum", "required"), (list,)),
    "items": (dict, bool, list),
    "nullable": (bool,),
    "type": (str, list),
    "uniqueItems": (bool,),
}

# Only these are looked for: to misspell an annotation changes nothing, and `const` is too much like `cost`.
_MEANT = ASSERTIONS - {"const"} | {"else", "maxContains", "minContains", "nullable", "then"}

# Words of other drafts and of tools, which may resemble a keyword.
_OTHERS = frozenset(
    {
        *("$anchor", "$comment", "$defs", "$dynamicAnchor", "$id", "$recursiveAnchor", "$schema", "$vocabulary"),
        *("const", "contentEncoding", "contentMediaType", "default", "definitions", "deprecated", "description"),
        *("examples", "id", "readOnly", "title", "writeOnly"),
        # Of drafts 1 to 3.
        *("contentType", "disallow", "divisibleBy", "extends", "links", "maxDecimal", "maximumCanEqual"),
        *("minimumCanEqual", "optional", "options", "requires", "transient", "unique"),
        # Of OpenAPI, form builders and validators.
        *("discriminator", "enumDescriptions", "enumNames", "example", "externalDocs", "formatExclusiveMaximum"),
        *("formatExclusiveMinimum", "formatMaximum", "formatMinimum", "patternRequired"),
        *("propertyOrder", "xml", "typeof"),
    }
)

# Where APIs and tools put the schema of an output or of arguments.
_HOLDERS = ("schema", "json_schema", "input_schema", "inputSchema", "parameters")

# How alike two words must be, as `SequenceMatcher.ratio` counts, and how many letters may differ: for `propertys`, these are 0.84
# and 2. In short words, a letter makes another word: `note` is not `not`.
_ALIKE = 0.83
_ALIKE_IF_SHORT = 0.88
_SHORT = 5
_DIFFERENT = 2
# A warning lists this many, at most.
_MOST_LISTED = 10
# It shows this many characters of a key.
_LONGEST = 40


def misspelt(schema: Json) -> str | None:
    """Return what to say about the keys of a schema that resemble a keyword, or None if there are none.

    Args:
        schema: As `document.load` returns it.

    Example:
        >>> misspelt({"propertys": {"a": True}})
        "'propertys' at # is not a keyword; it resembles 'properties'"
        >>> misspelt({"properties": {"propertys": True}, "x-item": 1, "title_": "a"}) is None
        True
        >>> misspelt({"name": "person", "schema": {"type": "object"}})
        "none of 'name', 'schema' is a keyword, so any JSON value is allowed; the schema may be what 'schema' holds"
    """
    found = list(_found(schema))
    if not found and (nothing := _without_keywords(schema)):
        return nothing
    more = len(found) - _MOST_LISTED
    return "; ".join([*found[:_MOST_LISTED], *([f"and {more} more"] if more > 0 else [])]) or None


def _without_keywords(schema: Json) -> str | None:
    """Return what to say about a whole schema that has keys, of which none is a keyword, or None."""
    if not isinstance(schema, dict) or any(key in ASSERTIONS | _MEANT or key.startswith("$") for key in schema):
        return None
    unknown = [key for key in schema if key not in _OTHERS]
    if not unknown:
        return None
    names = ", ".join(repr(key[:_LONGEST]) for key in unknown[:_MOST_LISTED])
    inside = next((key for key in unknown if key in _HOLDERS and isinstance(schema[key], dict)), None)
    held = f"the schema may be what {inside!r} holds" if inside else "the names of members belong into 'properties'"
    return f"none of {names} is a keyword, so any JSON value is allowed; {held}"


def _found(schema: Json) -> Iterator[str]:
    """Yield what to say about each such key, and each `nullable` that says nothing where null is refused."""
    # No draft has `nullable`.
    may_be_nullable = isinstance(schema, dict) and "$schema" not in schema
    for pointer, value in subschemas(schema):
        for key, inside in value.items():
            if key not in _MEANT and key not in _OTHERS:
                meant = _meant(key)
                if meant is not None and meant not in value and _may_be(inside, meant):
                    yield f"{key!r} at {pointer} is not a keyword; it resembles {meant!r}"
        says_nothing = value.get("nullable") is True and not isinstance(value.get("type"), str)
        if may_be_nullable and says_nothing and not _may_be_null(value):
            yield f"'nullable' at {pointer} says nothing, as it counts only beside a single 'type'; allow null with 'anyOf'"


def _may_be_null(value: Any) -> bool:
    """Whether a schema seems to allow null; one that refers to another is taken for one that does not."""
    if not isinstance(value, dict):
        return value is True
    kind, lists = value.get("type", "null"), {k: v for k, v in value.items() if isinstance(v, list)}
    return (
        not {"$dynamicRef", "$ref"} & value.keys()
        and (
            kind == "null"
            or "null" in lists.get("type", ())
            or (isinstance(kind, str) and value.get("nullable") is True)
        )
        and value.get("const") is None
        and None in lists.get("enum", (None,))
        and all(map(_may_be_null, lists.get("allOf", ())))
        and all(any(map(_may_be_null, lists[key])) for key in ("anyOf", "oneOf") if key in lists)
    )


@lru_cache(maxsize=1024)
def _meant(key: str) -> str | None:
    """Return the keyword that a key resembles most, if it is alike enough."""
    key = key.strip()
    if not key[-1:].isalnum() or len(key) > 2 * max(map(len, _MEANT)):
        # Such as `type_`, which is written to switch a keyword off.
        return None
    # The first character is hardly ever wrong, `$type` is not `type`, and `_type` is switched off as well.
    words = [word for word in sorted(_MEANT) if word[0] == key[0].lower()]
    matchers = {word: SequenceMatcher(None, _plain(key), _plain(word), autojunk=False) for word in words}
    word = max(words, key=lambda word: matchers[word].ratio(), default=None)
    if word is None:
        return None
    if key.startswith(word) and key[len(word) :][:1] in {"_", "-", *ascii_uppercase}:
        # A keyword and another word, such as `requiredBy`.
        return None
    # The same letters in another order, such as `tpye`, are alike.
    alike = sorted(_plain(key)) == sorted(_plain(word))
    if not alike and matchers[word].ratio() < (_ALIKE_IF_SHORT if len(word) <= _SHORT else _ALIKE):
        return None
    same = sum(block.size for block in matchers[word].get_matching_blocks())
    return word if max(len(_plain(key)), len(_plain(word))) - same <= _DIFFERENT else None


def _plain(word: str) -> str:
    return word.lower().replace("_", "").replace("-", "")


def _may_be(value: Any, keyword: str) -> bool:
    types = _TYPES.get(keyword)
    if types is None:
        return True
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))
