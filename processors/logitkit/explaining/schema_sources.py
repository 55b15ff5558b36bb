"""Which keywords of a schema refuse a JSON value, the beginning of one, or a byte of its text."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from logitkit.explaining.findings import Source
from logitkit.explaining.keyword_faults import FAULTS_OF, Fault, Keyword
from logitkit.explaining.open_json import JsonNode, closed_at_the_end, read_json
from logitkit.explaining.pattern_sources import is_legal
from logitkit.explaining.token_texts import shortened
from logitkit.json_schema.keywords import ASSERTIONS
from logitkit.json_schema.layout import Whitespace
from logitkit.json_schema.left_out import LeftOut
from logitkit.json_schema.metaschemas import metaschema
from logitkit.json_schema.pointer import names_of, plain, root_of, step
from logitkit.json_schema.references import Place, References
from logitkit.languages.schemas import JsonValue

__all__ = ["SchemaFaults", "schema_sources"]

# Keywords of values of every type; others apply to strings or numbers only.
_OF_ALL_TYPES = ("const", "enum", "type")
# Keywords that change the meaning of a keyword if they stand beside it and are true: those of draft 4, and of OpenAPI.
_BESIDE = {"maximum": ("exclusiveMaximum",), "minimum": ("exclusiveMinimum",), "type": ("nullable",)}


class SchemaFaults:
    """Finds the faults of values under one schema.

    Args:
        schema: The loaded schema.
        whitespace: The white space that is allowed.
        resources: The documents that it refers to, by URI.
    """

    def __init__(self, schema: Any, whitespace: Whitespace, resources: Mapping[str, Any] | None = None) -> None:
        # The schema was compiled, with an unknown draft left out if need be.
        self.references = References.of(schema, LeftOut(lax=True), resources)
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
        schema = place.value
        self.applied.setdefault(path, place)
        if schema is False:
            yield Fault(place.pointer, path, False)
        if not isinstance(schema, dict) or node is None:
            return
        for keyword in ["$ref"] if place.dialect.ref_alone and "$ref" in schema else schema:
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


_SPACE = (b" ", b"\t", b"\n", b"\r")


def schema_sources(
    schema: Any,
    written: bytes,
    rest: bytes,
    whitespace: Whitespace = "compact",
    resources: Mapping[str, Any] | None = None,
) -> tuple[Source, ...]:
    """Return which keywords of a schema refuse a byte, the first one in the order of the schema first.

    What the byte itself decides comes first: a character that a pattern does not allow, a bracket that closes an array too
    early. Then the values that are complete in the rest of the text are looked at: 12 with a minimum of 18 is refused at the
    comma after it, because it might have become 120. If no keyword refuses the text, its spelling is the reason: white space, or
    members that are not in the order of the schema.

    Args:
        schema: The loaded schema.
        written: The text before the byte, which is the beginning of a legal text.
        rest: The text from that byte on, as far as it is known; empty where the text ends too early.
        whitespace: The white space that is allowed, as in `JsonSchema`.
        resources: The documents that the schema refers to, loaded, by URI.

    Example:
        >>> schema = {"type": "object", "properties": {"age": {"type": "integer", "maximum": 99}}}
        >>> source = schema_sources(schema, b'{"age":10', b"0}")[0]
        >>> source.text, source.pointer, source.path
        ('maximum: 99', '/properties/age/maximum', '/age')
    """
    faults = SchemaFaults(schema, whitespace, resources)
    documents = {"": schema, **(resources or {})}
    start = written + rest[:1]
    node, read = read_json(start)
    if node is None:
        return (_spelling(f"whitespace: {whitespace}" if rest[:1] in _SPACE else "", faults, ""),)
    whole, known = read_json(written + rest)
    whole = whole or node
    complete = whole.closed and known == len(written + rest)
    found = faults.of(node) if rest else []
    end = _end(node, whole)
    path, in_string, following = end.path, end.in_string, end.following
    if rest[:1] in _SPACE and not in_string and not (found and written[-1:].isdigit()):
        return (_spelling(f"whitespace: {whitespace}", faults, path),)
    if not found and (read < len(start) or (in_string and b"" < rest[:1] < b" ")):
        return (_spelling("the syntax of JSON", faults, path),)
    begun = {*_paths(node), *_outer(path)}
    for paths in (begun, {following}):
        for value in (whole, closed_at_the_end(whole, after_comma=len(rest) == 1)):
            found = found or [fault for fault in faults.of(value) if fault.path in paths]
    # A later value may be refused this early, such as one of a required member; else it is a matter of spelling.
    found = found or (faults.of(whole) if complete else [])
    is_later = bool(found) and found[0].path not in {*_paths(node), *_outer(path.rpartition("/")[0])}
    # A value after the byte may be wrong as well, while the byte is refused for the order of the members.
    found = [] if is_later and not _is_legal_without(found, documents, start, whitespace) else found
    if not found and not complete:
        found = faults.of(closed_at_the_end(node, following=end.name))
        every = closed_at_the_end(node, every=True, following=end.name)
        found = found or [fault for fault in faults.of(every) if fault.path == path]
    if not found:
        found = [fault for fault in faults.suspects if _is_legal_without([fault], documents, start, whitespace)]
    if not found:
        return (_spelling(_convention(end, len(rest) > 1 and not faults.suspects), faults, following or path),)
    return tuple(dict.fromkeys(_source(fault) for fault in _with_branches(found[0], path)))


class _End(NamedTuple):
    """Where a text ends.

    Args:
        path: The path of the value that the text ends in; for a name, that of its member.
        node: This value; for a name, the object.
        in_string: Whether the text ends in a string.
        following: After a comma, the path of the next member or item, if the text after the end has one.
        name: The name of this member, if it is complete.
    """

    path: str
    node: JsonNode
    in_string: bool
    following: str | None = None
    name: JsonNode | None = None


def _end(node: JsonNode, whole: JsonNode, path: str = "") -> _End:
    """Return where the text of a value ends.

    Args:
        node: The value.
        whole: The same with the text after it.
        path: The path of both.
    """
    number = len(node.children) - 1
    if node.more and len(whole.children) > len(node.children):
        name = whole.keys[number + 1] if whole.keys else None
        if name is None or name.closed:
            return _End(path, node, False, step(path, name.text if name else number + 1), name)
    if node.closed or node.more or number < 0:
        return _End(path, node, node.kind == "string" and not node.closed)
    inside = step(path, whole.names[number] if node.keys else number)
    last, known = node.children[number], whole.children[number]
    if last is None:
        return _End(inside, node, not node.keys[number].closed)
    return _end(last, known or last, inside)


def _paths(node: JsonNode, path: str = "") -> Iterator[str]:
    """Yield the paths of a value and of all values inside."""
    yield path
    names: Iterable[str | int] = node.names or range(len(node.children))
    for name, child in zip(names, node.children, strict=True):
        if child is not None:
            yield from _paths(child, step(path, name))


def _outer(path: str) -> Iterator[str]:
    """Yield a path and those of the values around it."""
    yield path
    while path:
        path = path.rpartition("/")[0]
        yield path


def _is_legal_without(faults: list[Fault], documents: Mapping[str, Any], text: bytes, whitespace: Whitespace) -> bool:
    """Whether a text is the beginning of a legal one if some keywords are left out of the schema, whose own URI is ""."""
    changed = dict(documents)
    for fault in faults:
        root, _, fragment = fault.pointer.partition("#")
        uri = next((uri for uri in changed if root_of(uri) == f"{root}#"), root)
        changed[uri] = _without(changed.get(uri, metaschema(uri)), names_of(fragment))
    schema = changed.pop("")
    return bool(is_legal(JsonValue(schema, whitespace, resources=changed), text, complete=False))


def _without(schema: Any, names: list[str]) -> Any:
    """Return a schema without one keyword, or with `true` for one of its schemas; others may share its parts, so none changes."""
    name, *inside = names
    if isinstance(schema, list):
        place = int(name)
        return [*schema[:place], _without(schema[place], inside) if inside else True, *schema[place + 1 :]]
    if name not in schema:
        return schema
    others = {keyword: value for keyword, value in schema.items() if keyword != name}
    if inside:
        return {**schema, name: _without(schema[name], inside)}
    return {**schema, name: True} if schema[name] is False else others


def _convention(end: _End, named: bool) -> str:
    """Return which rule of spelling a text breaks that no keyword refuses; "" if it is not known."""
    node = end.node
    if node.kind == "number" and b"e" in node.raw.lower():
        return "numbers without an exponent"
    written = node.keys[-1] if node.keys else node
    if end.in_string and b"\\" in written.raw[-6:]:
        return "no needless escapes"
    names = [*node.names, end.name.text] if end.name else node.names if not node.more else ()
    if node.kind == "object" and named and names:
        return "each member stands once" if names[-1] in names[:-1] else "the members stand in the order of the schema"
    return ""


def _with_branches(fault: Fault, path: str) -> list[Fault]:
    """Return a fault, and those inside the branches that the text before the value at a path has left possible."""
    possible = [branch for branch in fault.inside if all(f"{path}/".startswith(f"{inner.path}/") for inner in branch)]
    return [fault, *(f for branch in possible or fault.inside for inner in branch for f in _with_branches(inner, path))]


def _shown(value: Any) -> str:
    return shortened(json.dumps(value, ensure_ascii=False, default=str))


def _source(fault: Fault) -> Source:
    keyword = fault.pointer.rpartition("/")[2]
    return Source("schema", f"{keyword}: {_shown(fault.value)}", pointer=plain(fault.pointer), path=fault.path)


def _spelling(text: str, faults: SchemaFaults, path: str) -> Source:
    """Return the schema of the value, for a reason that is not a keyword; "": the reason is not known."""
    applied = (faults.applied[outer] for outer in _outer(path) if outer in faults.applied)
    place = next(applied, faults.references.root)
    return Source("schema", text or _shown(place.value), pointer=plain(place.pointer), path=path)
