"""The schemas of a document by their places: what stands there, what is left out of it, and which one an error is blamed on.

A place is a schema with its pointer. In `{"properties": {"a": {"$ref": "#/$defs/b"}}}`, the schema of the member `a` is at
`#/properties/a`; as it only refers to another one, that one is read in its place.
"""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from logitkit.errors import ConfigurationError, PatternSyntaxError, PatternTooLarge, UnsupportedSchema
from logitkit.json_schema.conjunction import ANYTHING, NOTHING, Conjunction, Literal
from logitkit.json_schema.distinct_schemas import DistinctSchemas
from logitkit.json_schema.keywords import ASSERTIONS
from logitkit.json_schema.left_out import LeftOut
from logitkit.json_schema.pointer import below
from logitkit.json_schema.references import Place, References

__all__ = ["SchemaPlaces"]


class Blaming:
    """Says of errors in a block which keyword is to blame for them. Most blocks have none, so it is found only then.

    Args:
        find: Returns the place of the schema, and the keyword.
    """

    __slots__ = ("_find",)

    def __init__(self, find: Callable[[], tuple[Place, str | None]]) -> None:
        self._find = find

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            return
        if isinstance(error, UnsupportedSchema):
            if error.pointer is not None:
                return
            reason = error.reason
        elif isinstance(error, PatternSyntaxError):
            reason = str(error)
        elif isinstance(error, PatternTooLarge):
            reason = str(error).replace("pattern", "schema")
        else:
            return
        place, keyword = self._find()
        raise UnsupportedSchema(reason, place.pointer, keyword) from None


class SchemaPlaces:
    """Finds schemas, and numbers those that differ.

    Args:
        references: The document.
        left_out: The keywords to leave out, to which the reader adds those that it cannot honour.
        strict_formats: Whether to refuse what `ignore` is given.
    """

    def __init__(self, references: References, left_out: LeftOut | None, strict_formats: bool) -> None:
        self.references = references
        # The formats that have been ignored, in the order in which they were met.
        self.ignored: dict[str, None] = {}
        self.left_out = left_out or LeftOut()
        self._strict_formats = strict_formats
        self._drops = 0
        self._doubts = 0
        self._places: list[Place] = []
        self._numbers: dict[tuple[int, str], int] = {}
        self._schemas = DistinctSchemas()
        self._constants: dict[tuple[object, ...], dict[str, object]] = {}

    def inside(self, place: Place, *names: str | int) -> Place:
        """Return the schema inside the one of a place."""
        value = place.value
        for name in names:
            value = value[name]
        pointer = below(place.pointer, *names)
        found = Place(self.references.dialect.known(value), pointer, self.references.base_of(value, place.base))
        self.check(found)
        return found

    def check(self, place: Place) -> None:
        """Refuse a place that holds no schema, or one of another draft."""
        value, pointer, _ = place
        if not isinstance(value, dict | bool):
            raise ConfigurationError(f"{pointer} is a {type(value).__name__}; a schema is an object, true or false")
        if isinstance(value, dict) and pointer != "#" and self.has(place, "$schema"):
            self.references.dialect.check_inside(value["$schema"], pointer)

    def has(self, place: Place, keyword: str) -> bool:
        """Whether a schema has a keyword, and it is not left out."""
        if keyword not in place.value:
            return False
        if (place.pointer, keyword) in self.left_out:
            self._drops += 1
            return False
        return True

    def doubt(self) -> None:
        """Note that what is read cannot be negated: it is not known of all names whether they are allowed."""
        self._doubts += 1

    def check_doubts(self, before: int) -> None:
        """Raise an error if names are in doubt in what has been read since their number was asked for.

        Raises:
            UnsupportedSchema: Some are; the pointer is the caller's to say.
        """
        if self._doubts > before:
            raise UnsupportedSchema("it is negated, and a format under its 'propertyNames' is not known of all names")

    def doubts(self) -> int:
        """How often names were in doubt so far."""
        return self._doubts

    def drops(self) -> int:
        """Return how often a keyword has been left out so far."""
        return self._drops

    def ignore(self, place: Place, keyword: str, reason: str) -> None:
        """Take a keyword for an annotation.

        Raises:
            UnsupportedSchema: It must not be ignored.
        """
        if self._strict_formats:
            raise UnsupportedSchema(
                f"{reason}; remove it, or pass strict_formats=False to ignore it", place.pointer, keyword
            )
        self.ignored[f"{keyword!r} at {place.pointer}: {reason}"] = None

    def conjunction(self, place: Place) -> Conjunction:
        """Return what a value satisfies that satisfies the schema of a place."""
        place = self.followed(place)
        if place.value is False:
            return NOTHING
        if place.value is True or not any(keyword in ASSERTIONS for keyword in place.value):
            return ANYTHING
        return (Literal(self._number(place)),)

    def followed(self, place: Place) -> Place:
        """Return the schema that one refers to which says nothing itself, or else that one."""
        followed: set[tuple[int, str]] = set()
        while isinstance(place.value, dict):
            asserting = [keyword for keyword in place.value if keyword in ASSERTIONS]
            if asserting != ["$ref"] or not self.has(place, "$ref") or not isinstance(place.value["$ref"], str):
                break
            place = self.references.target(place.value["$ref"], place)
            if (id(place.value), place.base) in followed:
                raise UnsupportedSchema("it refers to itself and to nothing else", place.pointer, "$ref")
            followed.add((id(place.value), place.base))
            self.check(place)
        return place

    def constant(self, place: Place, keyword: str, value: object) -> Conjunction:
        """Return what a value satisfies that equals a constant in a schema."""
        key: tuple[object, ...] = (id(value),) if isinstance(value, dict | list) else (type(value), value)
        schema = self._constants.setdefault(key, {"const": value})
        return (Literal(self._number(Place(schema, below(place.pointer, keyword), place.base))),)

    def blaming(self, place: Place, keyword: str | None) -> Blaming:
        """Say of errors in a block that a keyword is to blame for them."""
        return Blaming(lambda: (place, keyword))

    def blaming_one_of(self, conjunction: Conjunction, *keywords: str) -> Blaming:
        """Say of errors in a block that the first of some keywords that is there is to blame for them."""

        def first() -> tuple[Place, str | None]:
            places = [self._places[literal.schema] for literal in conjunction if literal.schema >= 0]
            found = [(place, keyword) for keyword in keywords for place in places if keyword in place.value]
            return found[0] if found else (places[0] if places else self.references.root, None)

        return Blaming(first)

    def _number(self, place: Place) -> int:
        key = self._schemas.number(place.value), place.base
        found = self._numbers.setdefault(key, len(self._places))
        if found == len(self._places):
            self._places.append(place)
        return found
