"""Schemas and values for hypothesis: few names and few values, so that keywords meet."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.json_schema.format_rules import RULES

NAMES = ("a", "b", "ab", "é\n")
# From 16 characters on, lengths are counted.
LONG = 16
TEXTS = ("", "a", "b", "ab", "aab", "ba", '"', "é\n", "2024-02-29", "x1", "a" * LONG, "b\n" * (LONG // 2) + "é")
PATTERNS = ("a", "^a", "b$", "^[ab]{1,3}$", "^(?:a|é\\n)*$", "[0-9]")
NUMBERS = (0, 1, -1, 2, 3, 5, 10, 12, 1.5, -0.5, 0.25, 100)
# A format of numbers, and one that is not known, say nothing about a string.
FORMATS = (*sorted(RULES), "uint8", "phone")
SCALARS = (None, True, False, *NUMBERS, *TEXTS)

names = st.sampled_from(NAMES)
small = st.integers(0, 3)
values = st.recursive(
    st.sampled_from(SCALARS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=6,
)


@st.composite
def _bounds(draw: st.DrawFn, low: str, high: str) -> dict[str, Any]:
    found = {}
    if draw(st.booleans()):
        found[low] = draw(small)
    if draw(st.booleans()):
        found[high] = draw(small)
    return found


@st.composite
def _strings(draw: st.DrawFn) -> dict[str, Any]:
    found = {"type": "string"} | draw(_bounds("minLength", "maxLength"))
    if draw(st.integers(0, 3)) == 0:
        found |= {keyword: LONG + bound for keyword, bound in found.items() if keyword != "type"}
    if draw(st.booleans()):
        found["pattern"] = draw(st.sampled_from(PATTERNS))
    if draw(st.integers(0, 5)) == 0:
        found["format"] = draw(st.sampled_from(FORMATS))
    return found


@st.composite
def _numbers(draw: st.DrawFn) -> dict[str, Any]:
    found: dict[str, Any] = {"type": draw(st.sampled_from(["integer", "number"]))}
    for keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        if draw(st.integers(0, 3)) == 0:
            found[keyword] = draw(st.sampled_from(NUMBERS))
    if draw(st.integers(0, 3)) == 0:
        found["multipleOf"] = draw(st.sampled_from([1, 2, 3, 0.5, 0.25]))
    return found


def _objects(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    @st.composite
    def build(draw: st.DrawFn) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if draw(st.integers(0, 4)):
            found["type"] = "object"
        if draw(st.integers(0, 3)):
            found["properties"] = draw(st.dictionaries(names, inner, max_size=3))
        if draw(st.booleans()):
            found["required"] = draw(st.lists(names, max_size=2, unique=True))
        if draw(st.booleans()):
            found["additionalProperties"] = draw(st.just(False) | inner)
        if draw(st.integers(0, 5)) == 0:
            found["patternProperties"] = draw(st.dictionaries(st.sampled_from(["^a", "b$", "^é"]), inner, max_size=2))
        if draw(st.integers(0, 5)) == 0:
            found["propertyNames"] = draw(st.sampled_from([{"maxLength": 1}, {"enum": ["a", "b"]}, {"pattern": "^a"}]))
        if draw(st.integers(0, 5)) == 0:
            found["dependentRequired"] = draw(
                st.dictionaries(names, st.lists(names, max_size=2, unique=True), min_size=1, max_size=1)
            )
        if draw(st.integers(0, 5)) == 0:
            found["dependentSchemas"] = draw(st.dictionaries(names, inner, min_size=1, max_size=1))
        if draw(st.integers(0, 2)) == 0:
            found |= draw(_bounds("minProperties", "maxProperties"))
        return found

    return build()


def _arrays(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    @st.composite
    def build(draw: st.DrawFn) -> dict[str, Any]:
        found: dict[str, Any] = {"type": "array"} | draw(_bounds("minItems", "maxItems"))
        if draw(st.booleans()):
            found["items"] = draw(st.just(False) | inner)
        if draw(st.integers(0, 2)) == 0:
            found["prefixItems"] = draw(st.lists(inner, min_size=1, max_size=2))
        if draw(st.integers(0, 2)) == 0:
            found["contains"] = draw(inner)
            found |= draw(_bounds("minContains", "maxContains"))
        if draw(st.integers(0, 7)) == 0:
            found["uniqueItems"] = True
        return found

    return build()


def _combined(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    several = st.lists(inner, min_size=1, max_size=3)
    both = st.tuples(inner, st.sampled_from(["anyOf", "oneOf", "allOf"]), several)
    return st.one_of(
        st.builds(lambda keyword, branches: {keyword: branches}, st.sampled_from(["anyOf", "oneOf", "allOf"]), several),
        both.map(
            lambda parts: {**parts[0], parts[1]: parts[2]} if isinstance(parts[0], dict) else {parts[1]: parts[2]}
        ),
        st.builds(lambda schema: {"not": schema}, inner),
        st.builds(lambda one, two: {**one, "not": two} if isinstance(one, dict) else {"not": two}, inner, inner),
        st.fixed_dictionaries({"if": inner, "then": inner}),
        st.fixed_dictionaries({"if": inner, "else": inner}),
        st.fixed_dictionaries({"if": inner, "then": inner, "else": inner}),
        st.lists(inner, min_size=2, max_size=3).map(lambda branches: {"oneOf": branches}),
    )


_leaves = st.one_of(
    _strings(),
    _numbers(),
    st.sampled_from([{"type": "null"}, {"type": "boolean"}, {}, True, False]),
    st.builds(lambda options: {"enum": options}, st.lists(values, min_size=1, max_size=3)),
    st.builds(lambda value: {"const": value}, values),
    st.builds(
        lambda types: {"type": types},
        st.lists(
            st.sampled_from(["null", "boolean", "string", "integer", "object"]), min_size=1, max_size=2, unique=True
        ),
    ),
)
flat = st.recursive(_leaves, lambda inner: st.one_of(_objects(inner), _arrays(inner), _combined(inner)), max_leaves=6)


@st.composite
def recursive(draw: st.DrawFn) -> Any:
    """Schemas that may refer to themselves and to each other."""
    inner = st.recursive(
        _leaves | st.sampled_from([{"$ref": "#/$defs/x"}, {"$ref": "#/$defs/y"}, {"$ref": "#"}]),
        lambda inner: st.one_of(_objects(inner), _arrays(inner), _combined(inner)),
        max_leaves=5,
    )
    root = draw(_objects(inner) | _arrays(inner))
    return {**root, "$defs": {"x": draw(_objects(inner)), "y": draw(_arrays(inner) | _leaves)}}


_bounded = st.one_of(_strings(), _numbers())
_parts = st.one_of(_arrays(_bounded), _objects(_leaves))
leaves = st.one_of(_bounded, _parts, _combined(_numbers()), _combined(_strings()), _combined(_parts))
"""Schemas of one level or two, with values at whose bounds something may be off by one."""

# Draft 4 has no schemas that are true or false.
DRAFTS = (
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-07/schema#",
    "https://json-schema.org/draft/2019-09/schema",
    "https://json-schema.org/draft/2020-12/schema",
)


@st.composite
def _dated(draw: st.DrawFn) -> Any:
    schema = draw(flat | recursive())
    if isinstance(schema, dict) and draw(st.integers(0, 3)) == 0:
        return {"$schema": draw(st.sampled_from(DRAFTS)), **schema}
    return schema


schemas = _dated()


def instances(schema: Any, root: Any = None, depth: int = 0) -> st.SearchStrategy[Any]:
    """Values that have a chance to satisfy a schema."""
    root = schema if root is None else root
    if not isinstance(schema, dict) or depth > 4:
        return values
    options: list[st.SearchStrategy[Any]] = []
    if "$ref" in schema:
        target = root
        for step in schema["$ref"].split("/")[1:]:
            target = target[step]
        options.append(instances(target, root, depth + 1))
    options += [st.sampled_from(schema["enum"])] if "enum" in schema else []
    options += [st.just(schema["const"])] if "const" in schema else []
    for keyword in ("anyOf", "oneOf", "allOf"):
        options += [instances(branch, root, depth + 1) for branch in schema.get(keyword, ())]
    options += [instances(schema[k], root, depth + 1) for k in ("if", "then", "else") if k in schema]
    types = schema.get("type", [])
    types = [types] if isinstance(types, str) else types
    if "object" in types or "properties" in schema or "required" in schema:
        options.append(_object_of(schema, root, depth))
    if "array" in types:
        options.append(_array_of(schema, root, depth))
    if "string" in types:
        options.append(st.sampled_from([*TEXTS, *_texts_at_the_bounds(schema)]))
    if "integer" in types or "number" in types:
        options.append(st.sampled_from([*NUMBERS, *_numbers_at_the_bounds(schema)]))
    # Most have a chance.
    return st.one_of(*options, *options, values) if options else values


def _texts_at_the_bounds(schema: dict[str, Any]) -> list[str]:
    bounds = [schema[keyword] for keyword in ("minLength", "maxLength") if keyword in schema]
    return [character * n for bound in bounds for n in (max(bound - 1, 0), bound, bound + 1) for character in "a\n"]


def _numbers_at_the_bounds(schema: dict[str, Any]) -> list[Any]:
    keywords = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    bounds = [schema[keyword] for keyword in keywords if keyword in schema]
    return [bound + off for bound in bounds for off in (-1, -0.25, 0, 0.25, 1)]


@st.composite
def _object_of(draw: st.DrawFn, schema: dict[str, Any], root: Any, depth: int) -> dict[str, Any]:
    properties = schema.get("properties", {})
    extra = schema.get("additionalProperties", True)
    wanted = [*schema.get("required", ()), *(n for n in (*properties, *NAMES) if draw(st.integers(0, 2)) == 0)]
    return {
        name: draw(instances(properties.get(name, extra), root, depth + 1))
        for name in dict.fromkeys(wanted)
        if name in properties or extra is not False
    }


@st.composite
def _array_of(draw: st.DrawFn, schema: dict[str, Any], root: Any, depth: int) -> list[Any]:
    prefix = schema.get("prefixItems", [])
    count = draw(st.integers(max(0, schema.get("minItems", 0) - 1), 4))
    items = [*prefix, *[schema.get("items", True)] * count][:count]
    kind = schema.get("contains", True)
    return [draw(instances(draw(st.sampled_from([item, kind])), root, depth + 1)) for item in items]
