"""Compiled automata in files, through which processes share them."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import threading
import uuid
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from logitkit.compiler.tokens.records.repetition import RepeatedAutomaton, Repetition
from logitkit.compiler.tokens.tables.stack_actions import StackActions
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.limits import Limits

__all__ = ["AutomatonFiles"]

KINDS = {kind.__name__: kind for kind in (TokenAutomaton, StackActions, Repetition)}

# Another number for each change of the format, so that no file of another version is found.
FORMAT = 7

# Bytes at the beginning of a file: the SHA-256 of all others.
CHECKSUM = 32

# The entry of a file that is not a table: the rest of the object, as JSON.
REST = "rest"


class AutomatonFiles:
    """The automata of one vocabulary, one file each. A file appears complete or not at all.

    This is only a cache: an automaton that cannot be written or read is compiled again.

    Args:
        folder: The folder, created if missing. A folder that other users can write to is not used.
        vocabulary_key: The content key of the vocabulary.
        limit: The maximum number of bytes that this process keeps there; it deletes its oldest files first.
    """

    def __init__(self, folder: Path, vocabulary_key: str, limit: int = 64 * 2**20) -> None:
        self.folder = folder
        self.limit = limit
        self._vocabulary_key = vocabulary_key
        # Oldest first; a file that is rewritten counts once.
        self._written: OrderedDict[Path, int] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def read(self, key: Hashable) -> TokenAutomaton | None:
        """Return the automaton stored for a key, or None."""
        path = self.path(key)
        try:
            if path is None or not self._is_own():
                return None
            tables = load(_checked(path.read_bytes()))
            found = _whole(json.loads(tables[REST].tobytes()), "", tables)
            if isinstance(found, Repetition):
                found = found.automaton()
        except (OSError, SafetensorError, LookupError, TypeError, ValueError, OverflowError, MemoryError):
            return None
        return found if isinstance(found, TokenAutomaton) else None

    def write(self, key: Hashable, automaton: TokenAutomaton) -> None:
        """Store an automaton under a key of everything that it depends on besides the vocabulary."""
        path = self.path(key)
        made = automaton.short() if isinstance(automaton, RepeatedAutomaton) else automaton
        if path is None or type(made).__name__ not in KINDS:
            return
        temporary = self.folder / f"{uuid.uuid4().hex}.tmp"
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            if not self._is_own():
                return
            tables: dict[str, NDArray[Any]] = {}
            rest = json.dumps(_part(made, "", tables))
            content = save(tables | {REST: np.frombuffer(rest.encode(), np.uint8)})
            temporary.write_bytes(hashlib.sha256(content).digest() + content)
            temporary.replace(path)
            self._count(path, len(content))
        except OSError:
            return

    def _count(self, path: Path, size: int) -> None:
        """Record a file, and delete the oldest files if the total exceeds the limit."""
        removed = []
        with self._lock:
            self._bytes += size - self._written.pop(path, 0)
            self._written[path] = size
            while self._bytes > self.limit:
                oldest, freed = self._written.popitem(last=False)
                self._bytes -= freed
                removed.append(oldest)
        for oldest in removed:
            oldest.unlink(missing_ok=True)

    def _is_own(self) -> bool:
        found = self.folder.stat(follow_symlinks=False)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022

    def path(self, key: Hashable) -> Path | None:
        """Return the path for a key, whether or not the file exists; None if the key cannot be written."""
        try:
            text = repr((FORMAT, self._vocabulary_key, _spelled(key)))
        except TypeError:
            return None
        return self.folder / hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _checked(content: bytes) -> bytes:
    """Return what follows the checksum of a file: a damaged table would be the automaton of another language.

    Raises:
        ValueError: The checksum is another one.
    """
    rest = content[CHECKSUM:]
    if hashlib.sha256(rest).digest() != content[:CHECKSUM]:
        raise ValueError("the file is damaged")
    return rest


def _spelled(key: object) -> object:
    """Return a key as plain values whose `repr` is complete and the same in every process.

    Raises:
        TypeError: The key contains some other type.
    """
    if key is None or type(key) in (str, bytes, int, bool, float):
        return key
    if isinstance(key, type):
        return ("class", key.__module__, key.__qualname__)
    if isinstance(key, Limits):
        return ("limits", key.states, key.work)
    if isinstance(key, tuple):
        return ("tuple", *map(_spelled, key))
    if is_dataclass(key) and not isinstance(key, type) and type(key).__eq__ is not object.__eq__:
        # A language. Its fields that are not compared follow from the others.
        values = (getattr(key, field.name) for field in fields(key) if field.compare)
        return (_spelled(type(key)), *map(_spelled, values))
    raise TypeError(f"{type(key).__name__} has no spelling")


def _part(made: Any, at: str, tables: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return a description of an object without its tables, which are added to `tables` under their paths."""
    left: dict[str, Any] = {"kind": type(made).__name__}
    for field in fields(made):
        value = getattr(made, field.name)
        if isinstance(value, np.ndarray):
            tables[f"{at}{field.name}"] = np.ascontiguousarray(value)
        elif type(value).__name__ in KINDS:
            left[field.name] = _part(value, f"{at}{field.name}.", tables)
        elif isinstance(value, tuple) and all(type(one).__name__ in KINDS for one in value):
            left[field.name] = [_part(one, f"{at}{field.name}.{i}.", tables) for i, one in enumerate(value)]
        else:
            left[field.name] = value
    return left


def _whole(left: dict[str, Any], at: str, tables: dict[str, NDArray[Any]]) -> Any:
    """Return the object of which `_part` returned a description and the tables."""
    kind = KINDS[left["kind"]]
    given: dict[str, Any] = {}
    for field in fields(kind):
        value = left.get(field.name)
        if field.name not in left:
            # A copy: an array over the file's bytes would be read-only, which torch warns about.
            value = tables[f"{at}{field.name}"].copy()
        elif isinstance(value, dict):
            value = _whole(value, f"{at}{field.name}.", tables)
        elif isinstance(value, list):
            parts = [(one, f"{at}{field.name}.{i}.") for i, one in enumerate(value)]
            value = tuple([_whole(one, path, tables) if isinstance(one, dict) else one for one, path in parts])
        given[field.name] = value
    return kind(**given)
