"""The JSON Schema of a Python type, narrowed to texts that pydantic's validator accepts. This module imports pydantic."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import JsonSchemaMode

from logitkit.json_schema import type_patterns as patterns
from logitkit.json_schema.set_members import set_members
from logitkit.json_schema.unique_items import MOST_DIFFERENT
from logitkit.json_schema.validated_constraints import ValidatedConstraints
from logitkit.json_schema.validated_numbers import ValidatedNumbers
from logitkit.json_schema.validated_text import ValidatedText, with_patterns

Schema = dict[str, Any]

# Formats of strings that are equal only if their texts are; of paths, addresses and moments, there are several texts.
FORMATS_OF_ONE_TEXT = (None, "binary", "date", "email", "password")


class ValidatedSchema(ValidatedConstraints, ValidatedText, ValidatedNumbers):
    """Generates the schema of the JSON texts that a validator accepts and that `dump_json` writes."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 (as in the base class)

    def generate(self, schema: Any, mode: JsonSchemaMode = "validation") -> Schema:
        """Return the complete schema."""
        found: Schema = with_patterns(super().generate(schema, mode))
        return found

    def _refuse(self, schema: Any, reason: str) -> Schema:
        return self.handle_invalid_for_json_schema(schema, reason)

    def json_schema(self, schema: Any) -> Schema:
        """Refuse JSON texts in strings."""
        return self._refuse(schema, "Json, a string that holds JSON text")

    # Values

    def nullable_schema(self, schema: Any) -> Schema:
        """Return null alone for a type without a schema, as a union leaves out such a type."""
        try:
            return super().nullable_schema(schema)
        except PydanticInvalidForJsonSchema:
            return {"type": "null"}

    def enum_schema(self, schema: Any) -> Schema:
        """Return the values that JSON has."""
        members = [member for member in schema["members"] if _is_json(member.value)]
        if not members:
            return self._refuse(schema, f"{schema['cls']!r}, of which JSON has no value")
        return super().enum_schema(schema | {"members": members})

    def literal_schema(self, schema: Any) -> Schema:
        """Return the values that JSON has."""
        # A member of an Enum is read if its class derives from str or int too.
        expected = [value for value in schema["expected"] if _is_scalar(value)]
        if not expected:
            return self._refuse(schema, f"Literal{schema['expected']!r}, of which JSON has no value")
        return super().literal_schema(schema | {"expected": expected})

    def tagged_union_schema(self, schema: Any) -> Schema:
        """Return the choices with the tag, which is read first, so a default of its field does not count."""
        found, tag = super().tagged_union_schema(schema), schema["discriminator"]
        if isinstance(tag, str):
            return {**found, "required": [tag]}
        # A function may find the tag, or it is read under several names; `_without_other_names` leaves one of them.
        names = [path[0] for path in tag if isinstance(path, list) and len(path) == 1] if isinstance(tag, list) else []
        return {**found, "anyOf": [{"required": [name]} for name in names]} if names else found

    # Collections

    def set_schema(self, schema: Any) -> Schema:
        """Return arrays of values that have a hash, with duplicates where they cannot be excluded."""
        items = set_members(schema.get("items_schema", {"type": "any"}), self._definitions)
        if items is None:
            return self._refuse(schema, "a set of values without a hash")
        found: Schema = super().set_schema(schema | {"items_schema": items})
        if self._few(found["items"]):
            return found
        # Duplicates are valid, but fewer different items than the minimum are not.
        if found.get("minItems", 0) < 2:
            del found["uniqueItems"]
        elif not _is_told_by_text(items):
            return self._refuse(
                schema, "a set with min_length above 1 whose values may be equal although their texts differ"
            )
        return found

    def frozenset_schema(self, schema: Any) -> Schema:
        """Return arrays, with duplicates where they cannot be excluded."""
        return self.set_schema({**schema, "type": "set"})

    def _few(self, items: Schema) -> bool:
        items = self._resolved(items)
        return "const" in items or items.get("type") == "boolean" or 0 < len(items.get("enum", ())) <= MOST_DIFFERENT

    def _resolved(self, schema: Schema) -> Schema:
        return (self.get_schema_from_definitions(schema["$ref"]) or {}) if "$ref" in schema else schema

    def tuple_schema(self, schema: Any) -> Schema:
        """Return arrays of the items, with no fewer and no more of them because of a constraint."""
        kept: Any = {name: value for name, value in schema.items() if name not in ("min_length", "max_length")}
        found: Schema = super().tuple_schema(kept)
        least, most = schema.get("min_length") or 0, schema.get("max_length")
        if least > found.get("minItems", 0):
            found["minItems"] = least
        return found if most is None else {**found, "maxItems": min(most, found.get("maxItems", most))}

    def dict_schema(self, schema: Any) -> Schema:
        """Return objects with names that the validator of the keys accepts."""
        found = super().dict_schema(schema | {"keys_schema": {"type": "any"}})
        keys = schema.get("keys_schema", {"type": "any"})
        names = self._names(keys)
        # A key that comes twice counts once.
        if found.get("minProperties", 0) > 1 and not self._are_told_by_text(keys):
            return self._refuse(
                schema, "a dict with min_length above 1 whose keys may be equal although their texts differ"
            )
        return {**found, "propertyNames": names} if names != {"type": "string"} and names else found

    def ordered_dict_schema(self, schema: Any) -> Schema:
        """Return objects with names that the validator of the keys accepts."""
        return self.dict_schema(schema)

    def counter_schema(self, schema: Any) -> Schema:
        """Return objects with names that the validator of the keys accepts."""
        return {**self.dict_schema({**schema, "values_schema": {"type": "int"}}), "type": "object"}

    def _are_told_by_text(self, keys: Any) -> bool:
        """Whether keys are different if their names in JSON are."""
        keys = self._defined(keys)
        if keys["type"] in ("union", "tagged-union"):
            choices = keys["choices"].values() if isinstance(keys["choices"], dict) else keys["choices"]
            return all(self._are_told_by_text(c[0] if isinstance(c, tuple) else c) for c in choices)
        if keys["type"] in ("function-after", "function-before", "function-wrap", "default", "nullable"):
            told = self._are_told_by_text(keys["schema"])
        elif keys["type"] == "str":
            told = not (keys.get("to_lower") or keys.get("to_upper"))
        else:
            told = keys["type"] in ("any", "bool", "bytes", "date", "enum", "int", "literal")
        # A path is a function of a string, too.
        return told and self._resolved(self.generate_inner(keys)).get("format") in FORMATS_OF_ONE_TEXT

    def _defined(self, schema: Any) -> Any:
        while schema["type"] == "definition-ref" and schema["schema_ref"] in self._definitions:
            schema = self._definitions[schema["schema_ref"]]
        return schema

    def _names(self, keys: Any) -> Schema:
        """Return which names in JSON stand for some keys."""
        keys = self._defined(keys)
        if keys["type"] == "enum":
            numbers = keys.get("sub_type") == "int"
            values = [member.value for member in keys["members"] if numbers or isinstance(member.value, str)]
            names = [str(int(value)) if numbers else value for value in values]
            return {"enum": names} if names else self._refuse_key(keys)
        return self._names_of(keys, self._resolved(self.generate_inner(keys)))

    def _names_of(self, keys: Any, found: Schema) -> Schema:
        values = [found["const"]] if "const" in found else found.get("enum")
        if values is not None:
            names = [value for value in values if isinstance(value, str)]
            return {"enum": names} if names else self._refuse_key(keys)
        if "anyOf" in found:
            choices = list(map(self._resolved, found["anyOf"]))
            choices = [c for c in choices if _name_pattern(c) is not None or c.get("type") == "string"]
            each = [self._names_of(keys, choice) for choice in choices]
            return {"anyOf": each} if each else self._refuse_key(keys)
        pattern = _name_pattern(found)
        if pattern is not None:
            return {"pattern": pattern}
        return found if found.get("type", "string") == "string" else self._refuse_key(keys)

    def _refuse_key(self, keys: Any) -> Schema:
        return self._refuse(keys, f"a dict whose keys are {keys['type']}: JSON has strings")

    # Functions and classes

    def call_schema(self, schema: Any) -> Schema:
        """Return the fields of a named tuple; refuse functions."""
        if not isinstance(schema["function"], type):
            return self._refuse(schema, f"the function {schema['function']!r}")
        return super().call_schema(schema)

    def is_subclass_schema(self, schema: Any) -> Schema:
        """Refuse classes as values."""
        return self._refuse(schema, f"a subclass of {schema['cls']!r}")

    # Objects

    def model_fields_schema(self, schema: Any) -> Schema:
        """Return objects without other names of a field."""
        return self._without_other_names(schema["fields"].items(), super().model_fields_schema(schema))

    def typed_dict_schema(self, schema: Any) -> Schema:
        """Return objects without other names of a field."""
        return self._without_other_names(schema["fields"].items(), super().typed_dict_schema(schema))

    def dataclass_args_schema(self, schema: Any) -> Schema:
        """Return objects without other names of a field, and without fields that the class refuses (`init=False`).

        Most classes ignore what is given for such a field, and `dump_json` writes it.
        """
        forbids = "forbid" in (schema.get("extra_behavior"), self._config.extra)
        fields = [field for field in schema["fields"] if field.get("init", True) or not forbids]
        found = super().dataclass_args_schema(schema | {"fields": fields})
        return self._without_other_names([(field["name"], field) for field in fields], found)

    def _without_other_names(self, fields: Any, found: Schema) -> Schema:
        """Forbid names by which a field is also read, because the schema would allow any value there."""
        by_name = getattr(self._config, "validate_by_name", None) or self._config.populate_by_name
        properties = found.get("properties", {})
        for name, field in fields:
            alias = field.get("validation_alias")
            if alias is None:
                continue
            paths = [[alias]] if isinstance(alias, str) else alias if isinstance(alias[0], list) else [alias]
            if not by_name and all(len(path) > 1 for path in paths):
                if name in found.get("required", ()):
                    self._refuse(field, f"the field {name!r}, which is read from inside another one (AliasPath)")
                if all(other.get("validation_alias") != name for _, other in fields):
                    properties.pop(name, None)
            for other in [*(path[0] for path in paths), *([name] if by_name else [])]:
                properties.setdefault(other, False)
        return found


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | int | float)


def _is_json(value: object) -> bool:
    if isinstance(value, list):
        return all(map(_is_json, value))
    if isinstance(value, dict):
        return all(isinstance(name, str) and _is_json(inside) for name, inside in value.items())
    return _is_scalar(value)


def _name_pattern(found: Mapping[str, Any]) -> str | None:
    """Return the pattern of the names that stand for numbers or booleans, None if it is not known."""
    least = {("minimum", 0): "(?!-)", ("exclusiveMinimum", 0): r"(?![-]|0(?:\.0*)?$)"}
    bounds = [
        (name, found[name])
        for name in ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum", "multipleOf")
        if name in found
    ]
    forms = {"integer": patterns.INTEGER, "number": f"^-?{patterns.NUMBER}$", "boolean": "^(?:true|false)$"}
    form = forms.get(found.get("type", ""))
    if form is None or (bounds and (len(bounds) > 1 or bounds[0] not in least)):
        return None
    return f"^{least[bounds[0]]}{form[1:]}" if bounds else form


def _is_told_by_text(schema: Any) -> bool:
    """Whether values of a type are different if their JSON texts are: of integers, and of strings as they are written."""
    if schema["type"] == "str":
        return not any(schema.get(change) for change in ("strip_whitespace", "to_lower", "to_upper"))
    return bool(schema["type"] == "int")
