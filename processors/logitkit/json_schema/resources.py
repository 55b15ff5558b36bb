"""The other documents that a schema refers to, found among those that a user gives: by URI, or as files of a folder."""

from __future__ import annotations

import json
import os
import posixpath
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import unquote, urldefrag, urlsplit

from logitkit.budget import spend
from logitkit.errors import ConfigurationError, UnsupportedSchema
from logitkit.json_schema.document import LONGEST_TEXT, MOST_VALUES, Json, counted
from logitkit.json_schema.keywords import Dialect
from logitkit.json_schema.left_out import LeftOut
from logitkit.json_schema.metaschemas import metaschema
from logitkit.json_schema.pointer import root_of
from logitkit.json_schema.references import References, located

__all__ = ["documents_of"]

# Files of a folder that are looked through for an identifier.
MOST_FILES = 10_000
# The cost of one schema that is looked at for references.
PLACE_STEPS = 20

# It begins with a word that is rare, because all files of a folder are searched.
_IDENTIFIERS = re.compile(rb'id"(?<=["$]id")\s*:\s*("(?:[^"\\]|\\.)*")')


class _Source(Protocol):
    """Documents that are read when something refers to them."""

    def find(self, uri: str) -> tuple[str, object] | None:
        """Return the name and the content of the document with a URI."""

    def found(self, name: str, identity: str) -> None:
        """Note the identifier of a document that has been read."""


def documents_of(schema: Json, given: Mapping[str, object] | Path, left_out: LeftOut) -> dict[str, Json]:
    """Return the documents that a schema refers to, and those that these refer to, by URI.

    Args:
        schema: As `document.load` returns it.
        given: All documents by URI, or a folder of files.
        left_out: Whether unknown drafts are left out.

    Raises:
        ConfigurationError: A document is not JSON, or two have the same identifier.
        UnsupportedSchema: A document is too large, or written in a language of its own.

    Example:
        >>> given = {"a.json": {"$ref": "b.json"}, "b.json": True, "c.json": False}
        >>> documents_of({"items": {"$ref": "a.json"}}, given, LeftOut())
        {'a.json': {'$ref': 'b.json'}, 'b.json': True}
    """
    references = References.of(schema, left_out)
    root = references.resources[""]
    source: _Source = (_Folder if isinstance(given, Path) else _Given)(given, root.base, root.dialect.name)  # type: ignore[arg-type]
    found: dict[str, Json] = {}
    loaded: dict[str, Json] = {}
    left, before = MOST_VALUES, -1
    # A document that is read later may contain what an earlier reference leads to.
    while len(found) > before:
        before, missing = len(found), set[str]()
        for place in references.reachable():
            spend(PLACE_STEPS)
            for reference in (place.value.get("$ref"), place.value.get("$dynamicRef")):
                uri = located(place.base, reference)[0] if isinstance(reference, str) else ""
                if uri in references.resources or uri in missing:
                    continue
                match = source.find(uri)
                if match is None:
                    missing.add(uri)
                    continue
                name, content = match
                if name not in loaded:
                    loaded[name], count = _loaded(name, content, uri, left)
                    left -= count
                found[uri] = loaded[name]
                source.found(name, references.add(uri, found[uri]).base)
    return found


def _loaded(name: str, content: object, uri: str, most: int) -> tuple[Json, int]:
    try:
        return counted(content, most)
    except UnsupportedSchema as error:
        raise UnsupportedSchema(error.reason, root_of(uri)) from None
    except ConfigurationError as error:
        raise ConfigurationError(f"resources, {name}: {error}") from None


class _Given:
    """Documents that are given by URI, each of which may have an identifier as well."""

    def __init__(self, given: Mapping[str, object], base: str, dialect: str) -> None:
        self._dialect = dialect
        self._by_uri: dict[str, tuple[str, object]] = {}
        for key, content in given.items():
            uri, fragment = located(base, key) if isinstance(key, str) else ("", "")
            if not uri or fragment:
                raise ConfigurationError(
                    f"resources has the key {key!r:.80}; allowed are URIs without a fragment, such as "
                    "'https://example.org/a.json' or 'a.json'"
                )
            if uri in self._by_uri:
                raise ConfigurationError(f"resources, {self._by_uri[uri][0]} and {key!r}: both are the URI {uri!r}")
            self._by_uri[uri] = repr(key), content
        self._by_identity: dict[str, list[tuple[str, object]]] | None = None

    def find(self, uri: str) -> tuple[str, object] | None:
        if uri in self._by_uri:
            return self._by_uri[uri]
        if metaschema(uri) is not None:
            return None
        if self._by_identity is None:
            self._by_identity = {}
            for known, (name, content) in self._by_uri.items():
                document = _loaded(name, content, known, MOST_VALUES)[0] if isinstance(content, str) else content
                identity = _identity(document, self._dialect, known)
                self._by_identity.setdefault(identity or "", []).append((name, document))
        return _only(uri, self._by_identity.get(uri, []))

    def found(self, name: str, identity: str) -> None:
        pass


class _Folder:
    """The files `*.json` in a folder and below it.

    A file has the URI that its path says, relative to the identifier of the main schema, as if that stood in the folder. If a
    file that has been read has an identifier, files beside it also have the URIs relative to that. Otherwise, all files are
    looked through for an identifier.
    """

    def __init__(self, folder: Path, base: str, dialect: str) -> None:
        if not folder.is_dir():
            raise ConfigurationError(f"resources is {str(folder)!r}, which is not a folder")
        self._folder = Path(os.path.realpath(folder))
        # For each URI that a document is relative to, its scheme and host, the folders of its path, and those of the file.
        self._folders: dict[tuple[str, tuple[str, ...], tuple[str, ...]], None] = {}
        self._note(base, [])
        self._dialect = dialect
        # The files in which an identifier stands, which may be that of a part.
        self._files: dict[str, list[tuple[str, Path]]] | None = None

    def find(self, uri: str) -> tuple[str, object] | None:
        begin, path = _split(uri)
        for known, above, folder in self._folders if path else ():
            place = posixpath.normpath("/".join([*folder, *_relative(path, above)])) if known == begin else ""
            for name in (unquote(place), unquote(place) + ".json"):
                if (file := self._file(name)) is not None:
                    return name, self._text(name, file)
        if metaschema(uri) is not None:
            return None
        if self._files is None:
            self._files = self._identifiers()
        texts = [(name, self._text(name, file)) for name, file in self._files.get(uri, [])]
        return _only(uri, [(name, text) for name, text in texts if self._is_of(text, name, uri)])

    def found(self, name: str, identity: str) -> None:
        self._note(identity, name.split("/")[:-1])

    def _note(self, identity: str, folder: list[str]) -> None:
        """Note that a document with an identifier is in a folder."""
        begin, path = _split(identity)
        self._folders.setdefault((begin, tuple(path[:-1]), tuple(folder)))

    def _file(self, name: str) -> Path | None:
        """Return the JSON file that a path leads to, links included; None if there is none inside of the folder."""
        if not _is_name(name):
            return None
        try:
            file = Path(os.path.realpath(self._folder / name))
            return file if file.is_relative_to(self._folder) and file.is_file() else None
        except (OSError, ValueError):  # too long for a path, or with a null character
            return None

    def _text(self, name: str, file: Path) -> str:
        content = self._content(name, file)
        if len(content) > LONGEST_TEXT:
            raise UnsupportedSchema(f"the file has more than {LONGEST_TEXT} bytes", root_of(name))
        try:
            return content.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise ConfigurationError(f"resources, {name}: the file is not UTF-8") from None

    def _content(self, name: str, file: Path) -> bytes:
        try:
            with file.open("rb") as opened:
                # A buffer of the greatest size would take longer than reading.
                size = os.fstat(opened.fileno()).st_size
                return opened.read(min(size, LONGEST_TEXT) + 1)
        except OSError as error:
            raise ConfigurationError(f"resources, {name}: the file cannot be read ({error.strerror})") from None

    def _is_of(self, text: str, name: str, uri: str) -> bool:
        """Whether a URI is the identifier of the whole document in a file."""
        return _identity(_loaded(name, text, uri, MOST_VALUES)[0], self._dialect, uri) == uri

    def _identifiers(self) -> dict[str, list[tuple[str, Path]]]:
        """Return the files in which each identifier stands, without parsing them."""
        found: dict[str, list[tuple[str, Path]]] = {}
        for number, (name, file) in enumerate(self._all()):
            if number == MOST_FILES:
                raise ConfigurationError(f"resources is a folder with more than {MOST_FILES} JSON files")
            for identity in _identifiers_in(self._content(name, file)):
                found.setdefault(identity, []).append((name, file))
        return found

    def _all(self) -> Iterator[tuple[str, Path]]:
        for folder, inside, names in os.walk(self._folder):
            inside.sort()
            begin = Path(folder).relative_to(self._folder).as_posix()
            for name in sorted(names):
                path, file = (name if begin == "." else f"{begin}/{name}"), Path(folder, name)
                found = self._file(path) if self._is_link(file) else file
                if found is not None and _is_name(path):
                    yield path, found

    def _is_link(self, file: Path) -> bool:
        """Whether a file must be resolved: nothing but a link can lead out of the folder."""
        try:
            return not stat.S_ISREG(file.lstat().st_mode)
        except OSError:
            return True


def _is_name(path: str) -> bool:
    """Whether a path may be that of a file in the folder."""
    return path.endswith(".json") and "\\" not in path and not {"", ".", ".."} & {*path.split("/")}


def _split(uri: str) -> tuple[str, list[str]]:
    """Return the beginning of a URI, and the names of its path; none if it has none or is not a plain path."""
    try:
        scheme, host, path, query, _ = urlsplit(uri)
    except ValueError:  # such as `http://[`
        return "", []
    if query or (scheme and not host and not path.startswith("/")):
        return "", []
    return f"{scheme}://{host}" if scheme or host else path[: path.startswith("/")], path.removeprefix("/").split("/")


def _relative(path: list[str], folders: Sequence[str]) -> list[str]:
    """Return a path relative to folders."""
    same = len(posixpath.commonprefix([path[:-1], [*folders]]))
    return [".."] * (len(folders) - same) + path[same:]


def _identifiers_in(content: bytes) -> set[str]:
    found = set()
    for text in _IDENTIFIERS.findall(content):
        try:
            found.add(urldefrag(json.loads(text))[0])
        except ValueError:  # no URI
            continue
    return found


def _identity(document: Any, dialect: str, uri: str) -> str | None:
    """Return the identifier of a document, without its fragment."""
    try:
        identity = Dialect.of(document, LeftOut(lax=True), otherwise=dialect).identity(document)
    except UnsupportedSchema:
        return None
    return None if identity is None else located(uri, identity)[0]


def _only(uri: str, found: list[tuple[str, object]]) -> tuple[str, object] | None:
    if len(found) > 1:
        raise ConfigurationError(f"resources, {found[0][0]} and {found[1][0]}: both have the identifier {uri!r}")
    return found[0] if found else None
