"""The meta-schemas of the drafts, which describe schemas themselves: their rules, without titles and other annotations.

Source: JSON Schema, drafts 4, 6, 7, 2019-09 and 2020-12, the schemas that their specifications define.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from logitkit.json_schema.document import Json, load

__all__ = ["metaschema"]

# Schemas of keywords.
_STRING, _NUMBER, _BOOLEAN = {"type": "string"}, {"type": "number"}, {"type": "boolean"}
_TYPES = ("array", "boolean", "integer", "null", "number", "object", "string")
_FORMATS = ("format-annotation", "format-assertion")
_COUNT = "nonNegativeInteger"
_VOCABULARIES = {
    "2019-09": ("core", "applicator", "validation", "meta-data", "format", "content"),
    "2020-12": ("core", "applicator", "unevaluated", "validation", "meta-data", "format-annotation", "content"),
}
# Described, but not part of the draft's own meta-schema.
_OPTIONAL = {"2019-09": (), "2020-12": ("format-assertion",)}


def metaschema(uri: str) -> Json:
    """Return the meta-schema, or the part of one, with a URI without a fragment; None if there is none.

    Example:
        >>> metaschema("http://json-schema.org/draft-07/schema")["properties"]["not"]
        {'$ref': '#'}
        >>> metaschema("https://json-schema.org/draft/2020-12/meta/content")["$dynamicAnchor"]
        'meta'
        >>> metaschema("https://example.org") is None
        True
    """
    scheme, _, rest = uri.partition("://")
    host, _, path = rest.partition("/")
    return _of_path(path) if scheme in ("http", "https") and host == "json-schema.org" else None


@cache
def _all_paths() -> frozenset[str]:
    found = {f"draft-0{draft}/schema" for draft in (4, 6, 7)} | {f"draft/{draft}/schema" for draft in _VOCABULARIES}
    return frozenset(found | {f"draft/{d}/meta/{n}" for d, v in _VOCABULARIES.items() for n in v + _OPTIONAL[d]})


def _of_path(path: str) -> Json:
    return _made(path) if path in _all_paths() else None


@cache
def _made(path: str) -> Json:
    draft, name = path.removeprefix("draft/").split("/", 1)
    if draft.startswith("draft-"):
        return load(_one_document(int(draft[-1])))
    return load(_vocabulary(draft, name.removeprefix("meta/")))


def _objects(schema: Any, **beside: Any) -> dict[str, Any]:
    return {"type": "object", "additionalProperties": schema, **beside}


def _keywords(schema: Any, definitions: str, count_name: str = _COUNT) -> dict[str, dict[str, Any]]:
    """Return what the keywords hold that all drafts have in common, by vocabulary.

    Args:
        schema: The reference to the whole meta-schema.
        definitions: The beginning of references to definitions.
        count_name: The name of the definition of a number of items, members or characters.
    """
    count, from_zero = {"$ref": f"{definitions}/{count_name}"}, {"$ref": f"{definitions}/{count_name}Default0"}
    schemas, strings = {"$ref": f"{definitions}/schemaArray"}, {"$ref": f"{definitions}/stringArray"}
    simple = {"$ref": f"{definitions}/simpleTypes"}
    several = {"type": "array", "items": simple, "minItems": 1, "uniqueItems": True}
    return {
        "applicator": {
            **dict.fromkeys(("additionalProperties", "contains", "else", "if", "not", "propertyNames", "then"), schema),
            **dict.fromkeys(("allOf", "anyOf", "oneOf"), schemas),
            "items": {"anyOf": [schema, schemas]},
            "additionalItems": schema,
            "properties": _objects(schema),
            "patternProperties": _objects(schema, propertyNames={"format": "regex"}),
        },
        "validation": {
            "multipleOf": {"type": "number", "exclusiveMinimum": 0},
            **dict.fromkeys(("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum"), _NUMBER),
            **dict.fromkeys(("maxItems", "maxLength", "maxProperties"), count),
            **dict.fromkeys(("minItems", "minLength", "minProperties"), from_zero),
            "pattern": {"type": "string", "format": "regex"},
            "uniqueItems": _BOOLEAN,
            "required": strings,
            "const": True,
            "enum": {"type": "array", "items": True},
            "type": {"anyOf": [simple, several]},
        },
        "meta-data": {
            **dict.fromkeys(("description", "title"), _STRING),
            "default": True,
            **dict.fromkeys(("deprecated", "readOnly", "writeOnly"), _BOOLEAN),
            "examples": {"type": "array", "items": True},
        },
        "content": dict.fromkeys(("contentEncoding", "contentMediaType"), _STRING),
    }


def _definitions(schema: Any, from_zero: Any, count_name: str = _COUNT) -> dict[str, Any]:
    return {
        "schemaArray": {"type": "array", "minItems": 1, "items": schema},
        count_name: {"type": "integer", "minimum": 0},
        f"{count_name}Default0": from_zero,
        "simpleTypes": {"enum": [*_TYPES]},
        "stringArray": {"type": "array", "items": _STRING, "uniqueItems": True},
    }


def _one_document(draft: int) -> dict[str, Any]:
    """Return the meta-schema of draft 4, 6 or 7, which is one document."""
    schema, uri = {"$ref": "#"}, f"http://json-schema.org/draft-0{draft}/schema#"
    keywords: dict[str, Any] = {}
    count_name = "positiveInteger" if draft == 4 else _COUNT
    for more in _keywords(schema, "#/definitions", count_name).values():
        keywords |= more
    dependency = {"anyOf": [schema, {"$ref": "#/definitions/stringArray"}]}
    keywords |= {"definitions": _objects(schema), "dependencies": _objects(dependency), "format": _STRING}
    keywords |= {"$schema": {"type": "string", "format": "uri"}, "$comment": _STRING}
    keywords |= {key: {"type": "string", "format": "uri-reference"} for key in ("$id", "$ref")}
    from_zero = {"allOf": [{"$ref": f"#/definitions/{count_name}"}, {}]}
    definitions = _definitions(schema, from_zero, count_name)
    later = {"deprecated", "writeOnly"}
    if draft < 7:
        later |= {"$comment", "contentEncoding", "contentMediaType", "else", "if", "readOnly", "then"}
        keywords |= {"const": {}, "default": {}, "enum": {"type": "array"}, "examples": {"type": "array", "items": {}}}
    if draft == 4:
        later |= {"$id", "$ref", "const", "contains", "examples", "propertyNames"}
        keywords |= {"id": _STRING, "$schema": _STRING, "exclusiveMaximum": _BOOLEAN, "exclusiveMinimum": _BOOLEAN}
        keywords |= {key: {"anyOf": [_BOOLEAN, schema]} for key in ("additionalItems", "additionalProperties")}
        keywords["multipleOf"] = {"type": "number", "minimum": 0, "exclusiveMinimum": True}
        keywords["enum"] = {"type": "array", "minItems": 1, "uniqueItems": True}
        keywords["patternProperties"] = _objects(schema)
        definitions["stringArray"] |= {"minItems": 1}
    found = {
        ("id" if draft == 4 else "$id"): uri,
        "$schema": uri,
        "definitions": definitions,
        "type": "object" if draft == 4 else ["object", "boolean"],
        "properties": {keyword: held for keyword, held in keywords.items() if keyword not in later},
    }
    bounds = {"exclusiveMaximum": ["maximum"], "exclusiveMinimum": ["minimum"]}
    return found | {"dependencies": bounds} if draft == 4 else found


def _vocabulary(draft: str, name: str) -> dict[str, Any]:
    """Return a part of the meta-schema of draft 2019-09 or 2020-12; the name of the whole is "schema"."""
    whole, old = f"https://json-schema.org/draft/{draft}", draft == "2019-09"
    schema = {"$recursiveRef": "#"} if old else {"$dynamicRef": "#meta"}
    unevaluated = {"unevaluatedItems": schema, "unevaluatedProperties": schema}
    simple = {"unevaluated": unevaluated, **{key: {"format": _STRING} for key in ("format", *_FORMATS)}}
    keywords, definitions = (simple | _keywords(schema, "#/$defs")).get(name, {}), dict[str, Any]()
    both = _definitions(schema, {"$ref": "#/$defs/nonNegativeInteger"})
    found: dict[str, Any] = {
        "$schema": f"{whole}/schema",
        "$id": f"{whole}/{'' if name == 'schema' else 'meta/'}{name}",
    }
    found |= {"$recursiveAnchor": True} if old else {"$dynamicAnchor": "meta"}
    if name == "schema":
        found["allOf"] = [{"$ref": f"meta/{part}"} for part in _VOCABULARIES[draft]]
        dependency = {"anyOf": [schema, {"$ref": "meta/validation#/$defs/stringArray"}]}
        keywords = {"definitions": _objects(schema), "dependencies": _objects(dependency)}
        if not old:
            keywords["$recursiveAnchor"] = {"$ref": "meta/core#/$defs/anchorString"}
            keywords["$recursiveRef"] = {"$ref": "meta/core#/$defs/uriReferenceString"}
    elif name == "core":
        keywords, definitions = _core(schema, old)
    elif name == "applicator":
        keywords["dependentSchemas"] = _objects(schema)
        definitions = {"schemaArray": both.pop("schemaArray")}
        if old:
            keywords |= unevaluated
        else:
            del keywords["additionalItems"]
            keywords |= {"items": schema, "prefixItems": {"$ref": "#/$defs/schemaArray"}}
    elif name == "validation":
        definitions = {defined: held for defined, held in both.items() if defined != "schemaArray"}
        keywords |= {key: {"$ref": "#/$defs/nonNegativeInteger"} for key in ("maxContains", "minContains")}
        keywords["dependentRequired"] = _objects({"$ref": "#/$defs/stringArray"})
    elif name == "content":
        keywords["contentSchema"] = schema
    found |= {"type": ["object", "boolean"], "properties": keywords}
    return found | {"$defs": definitions} if definitions else found


def _core(schema: Any, old: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what the keywords of the vocabulary core hold, and its definitions."""
    reference, uri = ({"type": "string", "format": name} for name in ("uri-reference", "uri"))
    pattern = "^[A-Za-z][-A-Za-z0-9.:_]*$" if old else "^[A-Za-z_][-A-Za-z0-9._]*$"
    anchor: dict[str, Any] = {"type": "string", "pattern": pattern}
    definitions = {} if old else {"anchorString": anchor, "uriString": uri, "uriReferenceString": reference}
    if old:
        keywords = {"$recursiveRef": reference, "$recursiveAnchor": _BOOLEAN}
    else:
        anchor, uri, reference = ({"$ref": f"#/$defs/{defined}"} for defined in definitions)
        keywords = {"$dynamicRef": reference, "$dynamicAnchor": anchor}
    keywords |= {"$id": {**reference, "pattern": "^[^#]*#?$"}, "$schema": uri, "$anchor": anchor, "$ref": reference}
    keywords |= {"$vocabulary": _objects(_BOOLEAN, propertyNames=uri), "$comment": _STRING, "$defs": _objects(schema)}
    return keywords, definitions
