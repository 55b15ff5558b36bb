"""The targets of a schema's references: identifiers, anchors and pointers inside one document."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.keywords import OF_LIST, OF_NAMES, OF_ONE, Dialect
from logitkit.json_schema.left_out import LeftOut
from logitkit.json_schema.pointer import below, names_of


class Place(NamedTuple):
    """A schema in the document.

    Args:
        value: The schema itself.
        pointer: How to find it from the root, for errors.
        base: The identifier that references in it are relative to.
    """

    value: Any
    pointer: str
    base: str


class Here(NamedTuple):
    """A keyword that is being read.

    Args:
        place: The schema that it stands in.
        keyword: The keyword.
        track: Whether it matters which members and items keywords have looked at.
    """

    place: Place
    keyword: str
    track: bool


@dataclass(frozen=True, eq=False, slots=True)
class References:
    """The schemas of a document that can be referred to by name.

    Args:
        root: The whole document.
        dialect: The dialect that it is written in.
        resources: The schemas with an identifier.
        anchors: The schemas with an anchor, by their resource's identifier and the anchor's name.
        dynamic: The schemas with a dynamic anchor, by its name.
    """

    root: Place
    dialect: Dialect
    resources: dict[str, Place]
    anchors: dict[tuple[str, str], Place]
    dynamic: dict[str, list[Place]]

    @classmethod
    def of(cls, document: Any, left_out: LeftOut | None = None) -> References:
        """Look through a document.

        Args:
            document: As `document.load` returns it.
            left_out: Which keywords are left out; None allows none.

        Raises:
            UnsupportedSchema: It is written in a language of its own.
        """
        dialect = Dialect.of(document, left_out or LeftOut())
        root = Place(dialect.known(document), "#", "")
        found = cls(root, dialect, {"": root}, {}, {})
        found._look_through()
        return found

    def target(self, reference: str, place: Place, keyword: str = "$ref") -> Place:
        """Return the schema that a reference in a place leads to.

        Raises:
            UnsupportedSchema: There is none in the document.
        """
        uri, fragment = urldefrag(_joined(place.base, reference))
        resource = self.resources.get(uri)
        if resource is None:
            raise UnsupportedSchema(
                f"{reference!r} is in another document, which is not fetched; put the schema under '$defs'",
                place.pointer,
                keyword,
            )
        if not fragment:
            return resource
        if not fragment.startswith("/"):
            anchored = self.anchors.get((uri, unquote(fragment)))
            if anchored is None:
                raise UnsupportedSchema(f"there is no anchor {fragment!r} in the document", place.pointer, keyword)
            return anchored
        return self._walk(resource, names_of(fragment), reference, place, keyword)

    def dynamic_target(self, reference: str, place: Place) -> Place:
        """Return the schema that `$dynamicRef` leads to, where that is no matter of how one came there.

        Raises:
            UnsupportedSchema: It is, or there is none.
        """
        target = self.target(reference, place, "$dynamicRef")
        name = urldefrag(reference)[1]
        others = self.dynamic.get(name, [])
        if any(other.value is target.value for other in others) and len(others) > 1:
            raise UnsupportedSchema(f"there are {len(others)} dynamic anchors {name!r}", place.pointer, "$dynamicRef")
        return target

    def base_of(self, value: object, base: str) -> str:
        """Return what references in a schema are relative to, given that of what it stands in."""
        identity = value.get(self.dialect.identifier) if isinstance(value, dict) else None
        if not isinstance(identity, str) or (self.dialect.ref_alone and "$ref" in value):  # type: ignore[operator]
            return base
        return urldefrag(_joined(base, identity))[0]

    def _walk(self, resource: Place, names: list[str], reference: str, place: Place, keyword: str) -> Place:
        value, pointer, base = resource
        for name in names:
            if isinstance(value, dict) and name in value:
                value = value[name]
            elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            else:
                raise UnsupportedSchema(
                    f"{reference!r} points to nothing: there is no {name!r}", place.pointer, keyword
                )
            pointer = below(pointer, name)
            base = self.base_of(value, base)
        return Place(self.dialect.known(value), pointer, base)

    def _look_through(self) -> None:
        todo = [self.root]
        seen = set()
        while todo:
            value, pointer, base = todo.pop()
            value = self.dialect.known(value)
            place = Place(value, pointer, base)
            if not isinstance(value, dict) or (id(value), base) in seen:
                continue
            seen.add((id(value), base))
            inner = self.base_of(value, base)
            if inner != base:
                base = inner
                place = Place(value, pointer, base)
                self.resources.setdefault(base, place)
                if pointer == "#":
                    # A reference that is relative to no identifier is relative to the root's.
                    self.resources[""] = place
            self._note_anchors(place)
            todo.extend(_inside(place))

    def _note_anchors(self, place: Place) -> None:
        """Note the names that a schema gives itself."""
        value, base = place.value, place.base
        identity = value.get(self.dialect.identifier)
        if isinstance(identity, str) and "#" in identity and not (self.dialect.ref_alone and "$ref" in value):
            # The spelling of anchors before there was a keyword for them.
            self.anchors.setdefault((base, urldefrag(identity)[1]), place)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(value.get(keyword), str):
                self.anchors.setdefault((base, value[keyword]), place)
        if isinstance(value.get("$dynamicAnchor"), str):
            self.dynamic.setdefault(value["$dynamicAnchor"], []).append(place)


def _inside(place: Place) -> Iterator[Place]:
    """Yield the schemas in the keywords of a schema, relative to its own identifier."""
    for keyword, inside in place.value.items():
        at = below(place.pointer, keyword)
        if keyword in OF_NAMES and isinstance(inside, dict):
            yield from (Place(v, below(at, name), place.base) for name, v in inside.items())
        elif keyword in OF_LIST and isinstance(inside, list):
            yield from (Place(v, below(at, i), place.base) for i, v in enumerate(inside))
        elif keyword in OF_ONE:
            yield Place(inside, at, place.base)


def _joined(base: str, reference: str) -> str:
    # `urljoin` knows only some schemes: others are absolute as they stand, and a fragment belongs to any.
    if reference.startswith("#"):
        return base + reference
    return urljoin(base, reference)
