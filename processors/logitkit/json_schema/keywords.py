"""Which keywords of JSON Schema there are, where they hold schemas, and which of them a draft has."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.left_out import LeftOut

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


# The keywords that each draft has added, oldest first.
_ADDED = {
    "draft-04": frozenset[str](),
    "draft-05": frozenset[str](),
    "draft-06": frozenset({"const", "contains", "propertyNames"}),
    "draft-07": frozenset({"if"}),
    "2019-09": frozenset(
        {
            *("$anchor", "$recursiveRef", "dependentRequired", "dependentSchemas", "maxContains", "minContains"),
            *("unevaluatedItems", "unevaluatedProperties"),
        }
    ),
    "2020-12": frozenset({"$dynamicAnchor", "$dynamicRef", "prefixItems"}),
}
# A keyword of OpenAPI 3.0 only, whose documents name no draft.
_OF_NONE = frozenset({"nullable"})
_OPENAPI = re.compile(r"https://spec\.openapis\.org/oas/3\.(?:(0)/schema|[12]/(?:dialect|schema-base))/")
_DRAFT = re.compile(r"https?://json-schema\.org/(?:(draft-\d\d)|draft/([\d-]+))/(?:hyper-)?schema#?")
_ALLOWED = (
    "the drafts of json-schema.org, from 'http://json-schema.org/draft-04/schema#' to "
    "'https://json-schema.org/draft/2020-12/schema', and the dialects of OpenAPI 3.0 to 3.2"
)
# Up to this one, nothing beside `$ref` counts.
_LAST_REF_ALONE = "draft-07"


@dataclass(frozen=True, eq=False, slots=True)
class Dialect:
    """The language that a document is written in.

    Args:
        name: The draft, as its identifier has it; empty where the document names none, which may then have all keywords.

    Example:
        >>> Dialect("draft-07").known({"prefixItems": [True], "minItems": 1})
        {'minItems': 1}
    """

    name: str
    _unknown: frozenset[str] = field(init=False)
    _known: dict[int, tuple[Any, Any]] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        drafts = [*_ADDED]
        later = drafts[drafts.index(self.name) + 1 :] if self.name in _ADDED else []
        unknown = frozenset(keyword for draft in later for keyword in _ADDED[draft])
        if self.name:
            unknown |= _OF_NONE
        if self.name == "2020-12":
            unknown |= {"$recursiveRef"}
        object.__setattr__(self, "_unknown", unknown)

    @classmethod
    def of(cls, document: Any, left_out: LeftOut, pointer: str = "#", otherwise: str = "") -> Dialect:
        """Return the dialect that a document names.

        Args:
            document: The document.
            left_out: Whether an unknown draft may be left out.
            pointer: The pointer of the document itself, for errors.
            otherwise: The name of the dialect of a document that names none.

        Raises:
            UnsupportedSchema: It is not known.
        """
        if not isinstance(document, dict) or "$schema" not in document:
            return cls(otherwise)
        named = document["$schema"]
        try:
            return cls(_name(named, pointer))
        except UnsupportedSchema as error:
            is_newer = isinstance(named, str) and "://json-schema.org/" in named and "draft-03" not in named
            if is_newer and left_out.also(error):
                return cls("")
            raise

    def check_inside(self, named: Any, pointer: str) -> None:
        """Refuse a schema inside the document that names another draft, whose keywords would be read as those of this one.

        Args:
            named: The schema's `$schema`.
            pointer: Where the schema stands.

        Raises:
            UnsupportedSchema: It is not known, or it is not the document's.
        """
        name = _name(named, pointer)
        if self.name and name and name != self.name:
            raise UnsupportedSchema(
                f"{named!r} is not the draft of the whole document, {self.name}; name one draft in a document",
                pointer,
                "$schema",
            )

    @property
    def ref_alone(self) -> bool:
        """Whether nothing beside `$ref` counts."""
        return self.name in _ADDED and [*_ADDED].index(self.name) <= [*_ADDED].index(_LAST_REF_ALONE)

    @property
    def old_formats(self) -> bool:
        """Whether formats mean what they did before draft 7."""
        return self.name in ("draft-04", "draft-05", "draft-06")

    @property
    def identifier(self) -> str:
        """The keyword that identifies a schema."""
        return "id" if self.name == "draft-04" else "$id"

    def identity(self, schema: Any) -> str | None:
        """Return the identifier that a schema gives itself; None if it has none that counts."""
        given = schema.get(self.identifier) if isinstance(schema, dict) else None
        return given if isinstance(given, str) and not (self.ref_alone and "$ref" in schema) else None

    def known(self, value: Any) -> Any:
        """Return a schema without what its dialect does not know; always the same of one schema."""
        if not isinstance(value, dict):
            return value
        # An intersection with keys looks through the smaller of both: a document may hold thousands of schemas.
        without = value.keys() & self._unknown
        if self.name in ("draft-04", "draft-05"):
            flags = [k for k in ("exclusiveMaximum", "exclusiveMinimum") if not isinstance(value.get(k, True), bool)]
            without = without.union(flags)
        if not without:
            return value
        if id(value) not in self._known:
            # Kept with the schema itself, whose identity it goes by.
            self._known[id(value)] = value, {k: v for k, v in value.items() if k not in without}
        return self._known[id(value)][1]


def _name(named: Any, pointer: str) -> str:
    """Return the name of a draft, given the `$schema` of a schema; empty if it names none."""
    if named == "":
        return ""
    if isinstance(named, str) and (openapi := _OPENAPI.match(named)):
        # OpenAPI 3.0 has keywords of its own, and later versions are those of draft 2020-12.
        return "" if openapi[1] else "2020-12"
    draft = _DRAFT.fullmatch(named) if isinstance(named, str) else None
    if draft is not None and (draft[1] or draft[2]) in _ADDED:
        return draft[1] or draft[2]
    if draft is not None and draft[1] == "draft-03":
        raise UnsupportedSchema(
            "draft 3 has other keywords, such as 'extends'; allowed are draft 4 and later", pointer, "$schema"
        )
    raise UnsupportedSchema(f"{named!r} is unknown; allowed are {_ALLOWED}", pointer, "$schema")
