"""Which function reads each keyword."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from logitkit.json_schema import applicators, array_keywords, assertions, object_keywords
from logitkit.json_schema.references import Here, Place
from logitkit.json_schema.values import Values

if TYPE_CHECKING:
    from logitkit.json_schema.reader import Reader

Handler: TypeAlias = "Callable[[Reader, Here], Values]"
LastHandler: TypeAlias = "Callable[[Reader, Place, Values], Values]"

# Keywords that are read together, when the first of them is met.
TOGETHER = {
    **dict.fromkeys(("properties", "patternProperties", "additionalProperties"), object_keywords.members),
    **dict.fromkeys(("prefixItems", "items", "additionalItems"), array_keywords.items),
    **dict.fromkeys(("minimum", "exclusiveMinimum"), assertions.minimum),
    **dict.fromkeys(("maximum", "exclusiveMaximum"), assertions.maximum),
}
ALONE = {
    "$dynamicRef": applicators.dynamic_reference,
    "$recursiveRef": applicators.dynamic_reference,
    "$ref": applicators.reference,
    "allOf": applicators.all_of,
    "anyOf": applicators.any_of,
    "const": assertions.constant,
    "contains": array_keywords.contains,
    "dependencies": object_keywords.dependencies,
    "dependentRequired": object_keywords.dependencies,
    "dependentSchemas": object_keywords.dependencies,
    "enum": assertions.enumeration,
    "if": applicators.if_then_else,
    "maxItems": array_keywords.length,
    "maxLength": assertions.length,
    "maxProperties": object_keywords.size,
    "minItems": array_keywords.length,
    "minLength": assertions.length,
    "minProperties": object_keywords.size,
    "multipleOf": assertions.multiple_of,
    "not": applicators.negation,
    "oneOf": applicators.one_of,
    "pattern": assertions.pattern,
    "propertyNames": object_keywords.property_names,
    "required": object_keywords.required,
    "type": assertions.types,
    "uniqueItems": array_keywords.unique_items,
}
# Keywords whose meaning depends on the keywords next to them.
LAST: dict[str, LastHandler] = {
    "unevaluatedItems": array_keywords.unevaluated_items,
    "unevaluatedProperties": object_keywords.unevaluated_properties,
    "format": assertions.format_,
}
