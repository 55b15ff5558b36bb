"""The schemas of a document by their places: what stands there, what is left out of it, and which ones demand the same."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any

from logitkit.errors import ConfigurationError, PatternSyntaxError, PatternTooLarge, UnsupportedSchema
from logitkit.json_schema.conjunction import ANYTHING, NOTHING, Conjunction, Literal
from logitkit.json_schema.keywords import ANNOTATIONS, ASSERTIONS, OF_LIST, OF_NAMES, OF_ONE
from logitkit.json_schema.left_out import LeftOut
from logitkit.json_schema.pointer import below, is_document
from logitkit.json_schema.references import Place, References

__all__ = ["DistinctSchemas", "SchemaPlaces"]

DEEPEST = 40


class DistinctSchemas:
    """Numbers the schemas of one loaded document, in which equal lists and equal objects are one already.

    Example:
        >>> schemas = DistinctSchemas()
        >>> one, other = {"type": "string", "title": "A"}, {"description": "B", "type": "string"}
        >>> schemas.number(one) == schemas.number(other)
        True
        >>> schemas.number({"properties": {"title": one}}) == schemas.number({"properties": {}})
        False
    """

    def __init__(self) -> None:
        # By identity, and with each schema itself, so that no other one takes its place.
        self._known: dict[int, tuple[Any, int]] = {}
        self._numbers: dict[tuple[object, ...], int] = {}
        self._depth = 0

    def number(self, schema: Any) -> int:
        """Return a number that schemas share if they hold the same keywords, but for annotations, in the same order."""
        known = self._known.get(id(schema))
        if known is None:
            self._depth += 1
            # An object that is nested deeper shares its number with the same object alone.
            key = self._key(schema) if self._depth < DEEPEST else ("", id(schema))
            self._depth -= 1
            known = self._known[id(schema)] = schema, self._numbers.setdefault(key, len(self._numbers))
        return known[1]

    def _key(self, schema: Any) -> tuple[object, ...]:
        if not isinstance(schema, dict):
            return (_same(schema),)
        return tuple(
            [(keyword, self._inside(keyword, value)) for keyword, value in schema.items() if keyword not in ANNOTATIONS]
        )

    def _inside(self, keyword: str, value: Any) -> object:
        if keyword in OF_NAMES and isinstance(value, dict):
            return tuple([(name, self.number(schema)) for name, schema in value.items()])
        if keyword in OF_LIST and isinstance(value, list):
            return tuple([self.number(schema) for schema in value])
        if keyword in OF_ONE:
            return self.number(value)
        return _same(value)


def _same(value: Any) -> object:
    return id(value) if isinstance(value, dict | list) else (type(value), value)


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
        self._numbers: dict[tuple[int, str, str], int] = {}
        self._schemas = DistinctSchemas()
        self._constants: dict[tuple[object, ...], dict[str, object]] = {}

    def inside(self, place: Place, *names: str | int) -> Place:
        """Return the schema inside the one of a place."""
        value = place.value
        for name in names:
            value = value[name]
        found = place.inside(value, *names)
        self.check(found)
        return found

    def check(self, place: Place) -> None:
        """Refuse a place that holds no schema, or one of another draft."""
        value, pointer = place.value, place.pointer
        if not isinstance(value, dict | bool):
            raise ConfigurationError(
                f"{pointer} is of type {type(value).__name__}; a schema is an object, true or false"
            )
        if isinstance(value, dict) and not is_document(pointer) and self.has(place, "$schema"):
            place.dialect.check_inside(value["$schema"], pointer)

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
        return (Literal(self._number(place._replace(value=schema, pointer=below(place.pointer, keyword)))),)

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
        key = self._schemas.number(place.value), place.base, place.dialect.name
        found = self._numbers.setdefault(key, len(self._places))
        if found == len(self._places):
            self._places.append(place)
        return found
