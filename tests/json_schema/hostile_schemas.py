"""Schemas that are made to take long, of every kind that is known to hurt somebody's compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

INTEGER = {"type": "integer"}
STRING = {"type": "string"}


def _nested(levels: int, keyword: str = "items") -> Any:
    schema: Any = INTEGER
    for _ in range(levels):
        schema = {"type": "array", "items": schema} if keyword == "items" else {keyword: [schema, STRING]}
    return schema


def _contained(levels: int) -> Any:
    schema: Any = INTEGER
    for _ in range(levels):
        schema = {"type": "array", "contains": schema}
    return schema


def _members(levels: int, names: int) -> Any:
    schema: Any = INTEGER
    for _ in range(levels):
        schema = {"type": "object", "properties": {f"p{i}": schema for i in range(names)}}
    return schema


def _doubling(levels: int, keyword: str) -> Any:
    """Definitions each of which uses the one before twice."""
    found: dict[str, Any] = {"x0": {"type": "object", "properties": {"a": STRING}, "required": ["b"]}}
    for i in range(1, levels + 1):
        ref = {"$ref": f"#/$defs/x{i - 1}"}
        two = {"type": "object", "properties": {"l": ref, "r": ref}, "required": ["l", "r"]}
        found[f"x{i}"] = two if keyword == "properties" else {keyword: [ref, {"properties": {f"n{i}": INTEGER}, **ref}]}
    return {"$ref": f"#/$defs/x{levels}", "$defs": found}


def _choices(count: int, keyword: str, outer: str = "allOf") -> Any:
    """Choices whose combinations are as many as two to their number."""
    return {
        "type": "object",
        outer: [{keyword: [{"required": [f"a{i}"]}, {"properties": {f"a{i}": INTEGER}}]} for i in range(count)],
    }


def _each_other(count: int) -> Any:
    inside = {f"d{i}": {"$ref": f"#/$defs/d{i}"} for i in range(count)}
    each = {"type": "object", "properties": inside}
    return {"$ref": "#/$defs/d0", "$defs": {f"d{i}": {**each, "required": [f"d{i}"][: i % 2]} for i in range(count)}}


def _grammar(count: int) -> Any:
    """Recursive parts that come in with different conditions each."""
    parts = {
        f"d{i}": {
            "type": "object",
            "properties": {"v": {"allOf": [{"$ref": f"#/$defs/d{j}"} for j in range(count) if j != i]}, f"k{i}": {}},
        }
        for i in range(count)
    }
    return {"$ref": "#/$defs/d0", "$defs": parts}


def _negations(levels: int) -> Any:
    schema: Any = {"required": ["a"]}
    for i in range(levels):
        schema = {"not": {"properties": {f"p{i}": schema}, "required": [f"p{i}"]}}
    return schema


def _kinds(count: int, kind: Callable[[int], Any]) -> Any:
    """Objects that are told apart by a member, each of another kind."""
    return {
        "oneOf": [{"type": "object", "properties": {"p": {**kind(i)}}, "required": ["p"]} for i in range(count)],
    }


SCHEMAS: dict[str, Any] = {
    # Deep.
    "arrays in arrays": _nested(250),
    "unions in unions": _nested(120, "anyOf"),
    "conjunctions in conjunctions": _nested(120, "allOf"),
    "members in members": _members(30, 4),
    "negations in negations": _negations(60),
    # Wide.
    "20,000 optional members": {"properties": {f"p{i}": INTEGER for i in range(20_000)}},
    "20,000 members": {
        "properties": {f"p{i}": {} for i in range(20_000)},
        "required": [f"p{i}" for i in range(20_000)],
    },
    "3,000 optional members, closed": {
        "properties": {f"p{i}": STRING for i in range(3000)},
        "additionalProperties": False,
    },
    "3,000 names that need each other": {"dependentRequired": {f"p{i}": [f"p{i + 1}", "p0"] for i in range(3000)}},
    "60 names of which each needs all": {
        "dependentRequired": {f"p{i}": [f"p{j}" for j in range(60)] for i in range(60)},
        "minProperties": 3,
    },
    "needs that cross": {"dependentRequired": {f"p{i}": [f"p{99 - i}"] for i in range(100)}},
    "2,000 dependent schemas": {"dependentSchemas": {f"p{i}": {"required": [f"q{i}"]} for i in range(2000)}},
    "names in an enum": {"propertyNames": {"enum": [f"p{i}" for i in range(5000)]}, "minProperties": 2},
    "many members of any kind": {"type": "object", "maxProperties": 2000},
    "long names of members": {"required": [f"p{i}" * 50 for i in range(1000)]},
    "many members to be counted": {"properties": {f"p{i}": {} for i in range(2000)}, "minProperties": 1000},
    # Values.
    "a long enum": {"enum": [f"value {i * 7919 % 100_003}" for i in range(60_000)]},
    "a long enum of numbers": {"enum": [i * 7919 + 0.5 for i in range(60_000)]},
    "an enum of objects": {"enum": [{f"a{i}": i, "b": [i]} for i in range(20_000)]},
    "a long text in an enum": {"enum": ["ab" * 1_000_000]},
    "long texts in an enum": {"enum": [f"{i}" + "x" * 2000 for i in range(2000)]},
    "an array in an enum": {"const": list(range(100_000))},
    "differences of enums": {"allOf": [{"not": {"enum": [f"x{i}", i, [i]]}} for i in range(2000)]},
    # Numbers.
    "a huge bound": {"type": "integer", "minimum": -(10**3000) + 7, "maximum": 10**3000 - 7},
    "many bounds": {"allOf": [{"type": "number", "minimum": i / 7} for i in range(3000)]},
    "excluded numbers": {"type": "number", "not": {"anyOf": [{"const": i / 8} for i in range(3000)]}},
    "multiples of many": {"type": "integer", "allOf": [{"multipleOf": n} for n in (7, 11, 13, 17, 19, 23)]},
    "multiples of much": {"type": "integer", "multipleOf": 99_991},
    "fine multiples": {"type": "number", "multipleOf": 0.00007},
    # Strings.
    "a long string": {"type": "string", "minLength": 10**6, "maxLength": 10**7},
    "a string of 100,000 characters": {"type": "string", "maxLength": 100_000},
    "many counted strings": {"properties": {f"p{i}": {"type": "string", "maxLength": 500 + i} for i in range(60)}},
    "many lengths": {"allOf": [{"maxLength": 2000 - i, "minLength": i} for i in range(500)]},
    "a pattern that explodes": {"type": "string", "pattern": "^(a|b)*a(a|b){40}$"},
    "a pattern of counts in counts": {"type": "string", "pattern": "^(([a-z]{1,100}-){1,100}[0-9]{1,100}){1,100}$"},
    "a long pattern": {"type": "string", "pattern": "|".join(f"w{i}x*y{i}" for i in range(20_000))},
    "a pattern of many groups": {"type": "string", "pattern": "(" * 500 + "a" + ")?" * 500},
    "patterns beside each other": {"anyOf": [{"type": "string", "pattern": f"a{i}.*b{i}"} for i in range(3000)]},
    "patterns with lookarounds": {
        "type": "string",
        "pattern": "(?=.*a)(?=.*b)(?=.*c)(?=.*d)(?=.*e)(?=.*f)(?=.*g)^.{20,90}$",
    },
    "formats with lengths": {
        "properties": {f"p{i}": {"type": "string", "format": "uri", "maxLength": 500 + i} for i in range(30)}
    },
    "formats but others": {
        "type": "string",
        "format": "idn-email",
        "not": {"format": "email"},
        "allOf": [{"not": {"format": name}} for name in ("uri", "hostname", "ipv6", "date-time")],
    },
    "one-letter patterns": {"type": "string", "allOf": [{"pattern": chr(97 + i)} for i in range(20)]},
    "members whose patterns explode": _kinds(60, lambda i: {"pattern": f"^(a|b)*a(a|b){{40}}x{i}$"}),
    "members whose lookarounds explode": _kinds(
        30, lambda i: {"pattern": f"(?=.*a)(?=.*b)(?=.*c)(?=.*d)(?=.*e)(?=.*f)(?=.*g)(?=.*h)^.{{20,90}}{i}$"}
    ),
    "members of great lengths": _kinds(60, lambda i: {"maxLength": 150_000 + i}),
    "members that are multiples": _kinds(600, lambda i: {"multipleOf": 99_991 + 2 * i}),
    # Names by patterns.
    "1,000 patterns of names": {"patternProperties": {f"^a{i}": INTEGER for i in range(1000)}},
    "patterns that overlap": {
        "patternProperties": {f"[{'abcdefghijklmnopqrstuvwxyz'[i]}]": {"minimum": i} for i in range(26)}
    },
    "patterns beside members": {
        "patternProperties": {f"a{i}": INTEGER for i in range(3000)},
        "properties": {f"b{i}": {} for i in range(3000)},
    },
    "equal patterns beside members": {
        "patternProperties": {f"^b(?:{'|' * i})": INTEGER for i in range(300)},
        "properties": {f"b{i}": {} for i in range(5000)},
    },
    "names by a pattern that explodes": {"patternProperties": {"^(a|b)*a(a|b){30}$": INTEGER}},
    # Arrays.
    "items without number": {"type": "array", "minItems": 10**6, "maxItems": 10**9},
    "50,000 items": {"type": "array", "items": INTEGER, "maxItems": 50_000},
    "a long prefix": {"prefixItems": [{"const": i} for i in range(30_000)], "items": False},
    "counts in counts": {
        "type": "array",
        "maxItems": 90,
        "items": {"type": "array", "maxItems": 90, "items": _nested(2)},
    },
    "much that is contained": {"allOf": [{"contains": {"const": i}} for i in range(18)]},
    "how often it is contained": {
        "contains": {"type": "string"},
        "minContains": 300,
        "allOf": [{"contains": INTEGER, "minContains": 300, "maxContains": 900}],
    },
    "objects among any others": {"contains": {"type": "object"}, "minContains": 200},
    "many items of any kind": {"type": "array", "minItems": 3000},
    "contained in what is contained": _contained(250),
    "items that double": {
        "oneOf": [{"type": "array", "items": {"const": i}} for i in range(50)],
    },
    "prefixes that grow together": {"allOf": [{"prefixItems": [{"minimum": i}] * 200} for i in range(50)]},
    "different items": {"type": "array", "uniqueItems": True, "items": {"enum": list(range(12))}},
    # Combinations.
    "allOf of unions": _choices(40, "anyOf"),
    "allOf of exclusive unions": _choices(40, "oneOf"),
    "exclusive unions of unions": _choices(40, "anyOf", "oneOf"),
    "many conditions": {
        "type": "object",
        "allOf": [{"if": {"properties": {f"k{i}": {"const": 1}}}, "then": {"required": [f"a{i}"]}} for i in range(200)],
    },
    "a union of 3,000 objects": {
        "anyOf": [
            {"type": "object", "properties": {f"k{i}": {}, "t": {"const": i}}, "required": ["t"]} for i in range(3000)
        ]
    },
    "one of 1,000 objects": {
        "oneOf": [
            {"type": "object", "properties": {"t": {"const": f"{i}"}, f"k{i}": {}}, "required": ["t"]}
            for i in range(1000)
        ]
    },
    "one of 200 open objects": {"oneOf": [{"type": "object", "required": [f"k{i}"]} for i in range(200)]},
    "unevaluated in unions": {
        "type": "object",
        "anyOf": [{"properties": {f"k{i}": INTEGER}} for i in range(30)],
        "unevaluatedProperties": False,
    },
    "the same 20,000 times": {"allOf": [{"type": "string", "maxLength": 3}] * 20_000},
    # References.
    "itself": {"$ref": "#"},
    "itself in a union": {"anyOf": [{"$ref": "#"}, INTEGER]},
    "itself negated": {"not": {"$ref": "#"}},
    "a long chain": {
        "$ref": "#/$defs/d0",
        "$defs": {**{f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(20_000)}, "d20000": INTEGER},
    },
    "a long chain of unions": {
        "$ref": "#/$defs/d0",
        "$defs": {**{f"d{i}": {"anyOf": [{"$ref": f"#/$defs/d{i + 1}"}]} for i in range(5000)}, "d5000": INTEGER},
    },
    "members that double": _doubling(60, "properties"),
    "conjunctions that double": _doubling(30, "allOf"),
    "unions that double": _doubling(30, "anyOf"),
    "exclusive unions that double": _doubling(12, "oneOf"),
    "each refers to all": _each_other(150),
    "recursive conjunctions": _grammar(10),
    "recursion under many conditions": {
        "type": "object",
        "properties": {"v": {"$ref": "#"}},
        "allOf": [{"properties": {"v": {"properties": {f"k{i}": INTEGER}}}} for i in range(300)],
    },
    "recursion in a union": {
        "$defs": {f"d{i}": {"type": "object", "properties": {"v": {"$ref": "#"}, f"k{i}": {}}} for i in range(60)},
        "anyOf": [{"$ref": f"#/$defs/d{i}"} for i in range(60)],
    },
}
"""By what is hostile about them."""
