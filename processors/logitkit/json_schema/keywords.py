"""Which keywords of JSON Schema there are, and where they hold schemas."""

from __future__ import annotations

# Keywords whose value is a schema, a list of schemas, or an object of schemas by names.
OF_ONE = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
OF_LIST = frozenset({"allOf", "anyOf", "items", "oneOf", "prefixItems"})
OF_NAMES = frozenset({"$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties"})

# Keywords that say which values are valid; all others are annotations, or help one of these.
ASSERTIONS = frozenset(
    {
        *("$dynamicRef", "$recursiveRef", "$ref"),
        *("allOf", "anyOf", "const", "enum", "format", "if", "not", "oneOf", "type"),
        *("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf"),
        *("maxLength", "minLength", "pattern"),
        *("additionalItems", "contains", "items", "maxItems", "minItems", "prefixItems", "unevaluatedItems"),
        "uniqueItems",
        *("additionalProperties", "dependencies", "dependentRequired", "dependentSchemas", "maxProperties"),
        *("minProperties", "patternProperties", "properties", "propertyNames", "required", "unevaluatedProperties"),
    }
)

# Keywords that say nothing about which values are valid, whatever stands beside them.
ANNOTATIONS = frozenset(
    {"$comment", "default", "deprecated", "description", "example", "examples", "readOnly", "title", "writeOnly"}
)
