"""The targets of a schema's references: identifiers, anchors and pointers in its document and in others."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin

from logitkit.errors import UnsupportedSchema
from logitkit.json_schema.document import Json
from logitkit.json_schema.keywords import OF_LIST, OF_NAMES, OF_ONE, Dialect
from logitkit.json_schema.left_out import LeftOut
from logitkit.json_schema.metaschemas import metaschema
from logitkit.json_schema.pointer import below, is_document, names_of, root_of

# A reference with a scheme, a host or a path from the root is not relative to a folder.
_ABSOLUTE = re.compile("[A-Za-z][A-Za-z0-9+.-]*:|/")

# The name of `$recursiveAnchor: true` among dynamic anchors, which no `$dynamicAnchor` has.
RECURSIVE = "#"


class Place(NamedTuple):
    """A schema in a document.

    Args:
        value: The schema itself.
        pointer: How to find it from the root, for errors; in another document, after the URI of that.
        base: The identifier that references in it are relative to.
        dialect: The dialect of its document.
    """

    value: Any
    pointer: str
    base: str
    dialect: Dialect

    def inside(self, value: Any, *names: str | int) -> Place:
        """Return the place of a schema inside this one, given the names that lead there."""
        identity = self.dialect.identity(value)
        base = self.base if identity is None else located(self.base, identity)[0]
        return Place(self.dialect.known(value), below(self.pointer, *names), base, self.dialect)


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
    """The schemas that can be referred to by name, in a document and in others.

    Args:
        root: The whole document.
        left_out: Which keywords are left out.
        resources: The schemas with an identifier.
        anchors: The schemas with an anchor, by their resource's identifier and the anchor's name.
        dynamic: The schemas with a dynamic anchor, by its name.
    """

    root: Place
    left_out: LeftOut
    resources: dict[str, Place] = field(default_factory=dict)
    anchors: dict[tuple[str, str], Place] = field(default_factory=dict)
    dynamic: dict[str, list[Place]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, document: Any, left_out: LeftOut | None = None, documents: Mapping[str, Json] | None = None
    ) -> References:
        """Look through a document.

        Args:
            document: As `document.load` returns it.
            left_out: Which keywords are left out; None allows none.
            documents: The other documents, by URI.

        Raises:
            UnsupportedSchema: One is written in a language of its own.
        """
        left_out = left_out or LeftOut()
        dialect = Dialect.of(document, left_out)
        found = cls(Place(dialect.known(document), "#", "", dialect), left_out)
        found._look_through(found.root)
        for uri, other in (documents or {}).items():
            found.add(uri, other)
        return found

    def add(self, uri: str, document: Json) -> Place:
        """Look through another document, and return its place.

        Raises:
            UnsupportedSchema: It is written in a language of its own.
        """
        pointer = root_of(uri)
        dialect = Dialect.of(document, self.left_out, pointer, self.root.dialect.name)
        self._look_through(Place(dialect.known(document), pointer, uri, dialect))
        return self.resources[uri]

    def resource(self, uri: str) -> Place | None:
        """Return the schema with an identifier, or None. The meta-schemas of the drafts are known, and nothing is fetched."""
        found = self.resources.get(uri)
        if found is None and (known := metaschema(uri)) is not None:
            found = self.add(uri, known)
        return found

    def target(self, reference: str, place: Place, keyword: str = "$ref") -> Place:
        """Return the schema that a reference in a place leads to.

        Raises:
            UnsupportedSchema: There is none in the documents.
        """
        uri, fragment = located(place.base, reference)
        resource = self.resource(uri)
        if resource is None:
            raise UnsupportedSchema(
                f"{reference!r:.400} is in another document, and nothing is fetched; pass JsonSchema(..., "
                f"resources={{{uri!r:.400}: schema}}), or put the schema under '$defs'",
                place.pointer,
                keyword,
            )
        if not fragment:
            return resource
        if not fragment.startswith("/"):
            anchored = self.anchors.get((resource.base, unquote(fragment)))
            if anchored is None:
                where = f" {uri!r}" if uri else ""
                raise UnsupportedSchema(
                    f"there is no anchor {fragment!r} in the document{where}", place.pointer, keyword
                )
            return anchored
        return self._walk(resource, names_of(fragment), reference, place, keyword)

    def dynamic_target(self, reference: str, place: Place, keyword: str = "$dynamicRef") -> Place:
        """Return the schema that `$dynamicRef` or `$recursiveRef` leads to, if that is the same on every path there.

        Raises:
            UnsupportedSchema: It is not, or there is none.
        """
        target = self.target(reference, place, keyword)
        name = _dynamic_name(reference, keyword)
        others = self.dynamic.get(name, [])
        if not any(other.value is target.value and other.base == target.base for other in others):
            return target
        outermost = self._outermost(name)
        if len(outermost) > 1:
            raise UnsupportedSchema(
                f"it leads to one of {len(outermost)} schemas, depending on the path to it; use '$ref'",
                place.pointer,
                keyword,
            )
        return outermost[0]

    def reachable(self, stop: str | None = None) -> Iterator[Place]:
        """Yield the schemas that may apply to a value or a part of it, each once per base.

        Args:
            stop: The name of dynamic anchors; schemas are not looked through in a resource that has one.
        """
        todo, seen = [self.resources[""]], set()
        while todo:
            place = todo.pop()
            key = id(place.value), place.base, place.dialect.name
            if not isinstance(place.value, dict) or key in seen:
                continue
            seen.add(key)
            yield place
            if stop is None or all(other.base != place.base for other in self.dynamic[stop]):
                todo += [*_inside(place, definitions=False), *self._targets(place, stop)]

    def _targets(self, place: Place, stop: str | None) -> Iterator[Place]:
        """Yield the schemas that a schema refers to, or may refer to if no resource on the path has a dynamic anchor `stop`."""
        for keyword in ("$ref", "$dynamicRef", "$recursiveRef"):
            reference = place.value.get(keyword)
            if isinstance(reference, str):
                try:
                    yield self.target(reference, place, keyword)
                except UnsupportedSchema:
                    continue
                name = _dynamic_name(reference, keyword)
                yield from self.dynamic.get(name, ()) if keyword != "$ref" and name != stop else ()

    def _outermost(self, name: str) -> list[Place]:
        """Return the schemas with a dynamic anchor that are the outermost on some path from the root."""
        bases = {place.base for place in self.reachable(name)}
        return [place for place in self.dynamic[name] if place.base in bases]

    def _walk(self, resource: Place, names: list[str], reference: str, place: Place, keyword: str) -> Place:
        for name in names:
            value = resource.value
            if isinstance(value, dict) and name in value:
                value = value[name]
            elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
                value = value[int(name)]
            else:
                raise UnsupportedSchema(
                    f"{reference!r} points to nothing: there is no {name!r}", place.pointer, keyword
                )
            resource = resource.inside(value, name)
        return resource

    def _look_through(self, document: Place) -> None:
        """Note the names of the schemas in a document, whose base is the URI that leads to it."""
        root = document.inside(document.value)
        # A reference that is relative to no identifier is relative to the root's.
        self.resources[document.base] = root
        todo, seen = [root], set()
        while todo:
            place = todo.pop()
            if not isinstance(place.value, dict) or (id(place.value), place.base) in seen:
                continue
            seen.add((id(place.value), place.base))
            if place.dialect.identity(place.value) is not None:
                self.resources.setdefault(place.base, place)
            self._note_anchors(place)
            todo.extend(_inside(place))

    def _note_anchors(self, place: Place) -> None:
        """Note the names that a schema gives itself."""
        value, base = place.value, place.base
        identity = place.dialect.identity(value)
        if identity is not None and "#" in identity:
            # The spelling of anchors before there was a keyword for them.
            self.anchors.setdefault((base, identity.partition("#")[2]), place)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(value.get(keyword), str):
                self.anchors.setdefault((base, value[keyword]), place)
        if isinstance(value.get("$dynamicAnchor"), str):
            self.dynamic.setdefault(value["$dynamicAnchor"], []).append(place)
        if value.get("$recursiveAnchor") is True and (identity is not None or is_document(place.pointer)):
            self.dynamic.setdefault(RECURSIVE, []).append(place)


def _dynamic_name(reference: str, keyword: str) -> str:
    return RECURSIVE if keyword == "$recursiveRef" else unquote(reference.partition("#")[2])


def _inside(place: Place, definitions: bool = True) -> Iterator[Place]:
    """Yield the schemas in the keywords of a schema.

    Args:
        place: The schema.
        definitions: Whether to yield those that apply only where something refers to them.
    """
    for keyword, inside in place.value.items():
        if not definitions and keyword in ("$defs", "definitions"):
            continue
        if keyword in OF_NAMES and isinstance(inside, dict):
            yield from (place.inside(v, keyword, name) for name, v in inside.items())
        elif keyword in OF_LIST and isinstance(inside, list):
            yield from (place.inside(v, keyword, i) for i, v in enumerate(inside))
        elif keyword in OF_ONE:
            yield place.inside(inside, keyword)


def located(base: str, reference: str) -> tuple[str, str]:
    """Return the URI and the fragment of a reference that is relative to a base.

    Example:
        >>> located("https://a.org/b.json", "c.json#d"), located("", "./c.json"), located("a/b.json", "../../c.json")
        (('https://a.org/c.json', 'd'), ('c.json', ''), ('../c.json', ''))
    """
    try:
        uri, fragment = urldefrag(_joined(base, reference))
    except ValueError:  # not a URI, such as `http://[`
        uri, _, fragment = reference.partition("#")
    return uri, fragment


def _joined(base: str, reference: str) -> str:
    # `urljoin` knows only some schemes: others are absolute as they stand, and a fragment belongs to any.
    if not reference or reference.startswith("#"):
        return base + reference
    if _ABSOLUTE.match(base) or _ABSOLUTE.match(reference):
        return urljoin(base, reference)
    # Between relative paths, `urljoin` would forget `..` that leads out of the first folder.
    path, mark, fragment = reference.partition("#")
    folder = base.rpartition("/")[0]
    return posixpath.normpath(posixpath.join(folder, path)) + ("/" if path.endswith("/") else "") + mark + fragment
