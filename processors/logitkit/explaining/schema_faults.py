"""Which keywords of a schema refuse a JSON value, or the beginning of one, whatever follows it.

The keywords are tried in the order of the schema, as validators do. Those of strings and numbers are compiled by themselves, so a
value that is not complete yet is refused as soon as no text that begins with it satisfies the keyword.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from logitkit.explaining.byte_language import is_legal
from logitkit.explaining.keyword_faults import FAULTS_OF, Fault, Keyword
from logitkit.explaining.open_json import JsonNode
from logitkit.json_schema.keywords import ASSERTIONS
from logitkit.json_schema.layout import Whitespace
from logitkit.json_schema.left_out import LeftOut
from logitkit.json_schema.references import Place, References
from logitkit.languages.schemas import JsonValue

__all__ = ["SchemaFaults"]

# Keywords of values of every type; others apply to strings or numbers only.
_OF_ALL_TYPES = ("const", "enum", "type")
# Keywords that change the meaning of a keyword if they stand beside it and are true: those of draft 4, and of OpenAPI.
_BESIDE = {"maximum": ("exclusiveMaximum",), "minimum": ("exclusiveMinimum",), "type": ("nullable",)}


class SchemaFaults:
    """Finds the faults of values under one schema.

    Args:
        schema: The loaded schema.
        whitespace: The white space that is allowed.
    """

    def __init__(self, schema: Any, whitespace: Whitespace) -> None:
        # The schema was compiled, with an unknown draft left out if need be.
        self.references = References.of(schema, LeftOut(lax=True))
        self.whitespace = whitespace
        # The first schema that applied to each value, by the path of the value.
        self.applied: dict[str, Place] = {}
        # Keywords whose faults depend on what other keywords have looked at.
        self.suspects: list[Fault] = []
        # With the values themselves, by whose identity they are known.
        self._known: dict[tuple[str, str, int], tuple[JsonNode | None, list[Fault]]] = {}

    def of(self, node: JsonNode) -> list[Fault]:
        """Return the faults of the whole value, in the order of the schema."""
        return self.below(self.references.resources[""], node, "")

    def below(self, place: Place, node: JsonNode | None, path: str) -> list[Fault]:
        """Return the faults of a value under a part of the schema."""
        key = place.pointer, path, id(node)
        if key not in self._known:
            self._known[key] = node, []
            self._known[key] = node, [*self._faults(place, node, path)]
        return self._known[key][1]

    def matches(self, pattern: str, name: JsonNode) -> bool:
        """Whether a name matches a pattern, or may still do so if it is not complete."""
        return not self.refused({"type": "string", "pattern": pattern}, name)

    def refused(self, schema: dict[str, Any], node: JsonNode) -> bool:
        """Whether a small schema by itself refuses a value, however it is spelled."""
        text = node.respelled
        return bool(text) and is_legal(JsonValue(schema, self.whitespace), text, node.closed) is False

    def _faults(self, place: Place, node: JsonNode | None, path: str) -> Iterator[Fault]:
        schema = self.references.dialect.known(place.value)
        place = Place(schema, place.pointer, self.references.base_of(schema, place.base))
        self.applied.setdefault(path, place)
        if schema is False:
            yield Fault(place.pointer, path, False)
        if not isinstance(schema, dict) or node is None:
            return
        for keyword in ["$ref"] if self.references.dialect.ref_alone and "$ref" in schema else schema:
            here = Keyword(self, place, keyword, node, path)
            found = FAULTS_OF.get((node.kind, keyword)) or FAULTS_OF.get((None, keyword))
            if keyword in ("unevaluatedItems", "unevaluatedProperties"):
                self.suspects += here.fault()
            elif found is not None:
                yield from found(here)
            elif keyword in ASSERTIONS and node.raw and self._refused_alone(schema, keyword, node):
                yield from here.fault()

    def _refused_alone(self, schema: dict[str, Any], keyword: str, node: JsonNode) -> bool:
        if keyword == "type" and node.kind in schema["type"]:
            return False
        beside = {k: schema[k] for k in _BESIDE.get(keyword, ()) if isinstance(schema.get(k), bool)}
        alone = {keyword: schema[keyword], **beside}
        if keyword not in _OF_ALL_TYPES:
            if node.kind not in ("string", "number") or isinstance(schema[keyword], bool):
                return False
            alone["type"] = node.kind
        return self.refused(alone, node)
