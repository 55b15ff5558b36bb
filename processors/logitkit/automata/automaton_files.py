"""Compiled automata in files, by which one process gives to another what it has compiled."""

from __future__ import annotations

import hashlib
import json
import os
import stat
import uuid
from collections import deque
from collections.abc import Hashable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from logitkit.automata.limits import Limits
from logitkit.automata.pushdown_automaton import Nesting, PushdownAutomaton
from logitkit.automata.token_automaton import TokenAutomaton

__all__ = ["AutomatonFiles"]

KINDS = {kind.__name__: kind for kind in (TokenAutomaton, PushdownAutomaton, Nesting)}

# The part of a file that is no table: what is left, as JSON.
REST = "rest"


class AutomatonFiles:
    """Automata of one vocabulary, each in a file that appears whole or not at all.

    It is an aid and no more: what cannot be written or read is compiled again.

    Args:
        folder: Where they are; made here if it is not there. One that others may write to is not used.
        vocabulary_key: The content key of the vocabulary.
        limit: Most bytes that this process keeps there; its oldest files go first.
    """

    def __init__(self, folder: Path, vocabulary_key: str, limit: int = 64 * 2**20) -> None:
        self.folder = folder
        self.limit = limit
        self._vocabulary_key = vocabulary_key
        self._written: deque[tuple[Path, int]] = deque()
        self._bytes = 0

    def read(self, key: Hashable) -> TokenAutomaton | None:
        """Return the automaton that was written for a key, or None."""
        path = self._path(key)
        if path is None:
            return None
        try:
            if not self._is_own():
                return None
            found = _assembled(load(path.read_bytes()))
        except (OSError, SafetensorError, LookupError, TypeError, ValueError):
            return None
        return found if isinstance(found, TokenAutomaton) else None

    def write(self, key: Hashable, automaton: TokenAutomaton) -> None:
        """Write an automaton, under everything that it depends on besides the vocabulary."""
        path = self._path(key)
        if path is None or type(automaton).__name__ not in KINDS:
            return
        temporary = self.folder / f"{uuid.uuid4().hex}.tmp"
        try:
            self.folder.mkdir(mode=0o700, exist_ok=True)
            if not self._is_own():
                return
            content = save(_taken_apart(automaton))
            temporary.write_bytes(content)
            temporary.replace(path)
            self._written.append((path, len(content)))
            self._bytes += len(content)
            while self._bytes > self.limit:
                oldest, size = self._written.popleft()
                self._bytes -= size
                oldest.unlink(missing_ok=True)
        except OSError:
            return
        except IndexError:  # another thread was quicker
            self._bytes = 0

    def _is_own(self) -> bool:
        found = self.folder.stat(follow_symlinks=False)
        return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o022

    def _path(self, key: Hashable) -> Path | None:
        try:
            text = repr((self._vocabulary_key, _spelled(key)))
        except TypeError:
            return None
        return self.folder / hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _spelled(key: object) -> object:
    """Return a key in values whose text says all of them, in every process alike.

    Raises:
        TypeError: There is something else in it.
    """
    if key is None or type(key) in (str, bytes, int, bool, float):
        return key
    if isinstance(key, type):
        return ("class", key.__module__, key.__qualname__)
    if isinstance(key, Limits):
        return ("limits", key.states, key.work)
    if isinstance(key, tuple):
        return ("tuple", *map(_spelled, key))
    raise TypeError(f"{type(key).__name__} has no spelling")


def _taken_apart(automaton: TokenAutomaton) -> dict[str, NDArray[Any]]:
    tables: dict[str, NDArray[Any]] = {}
    rest = _part(automaton, "", tables)
    return tables | {REST: np.frombuffer(json.dumps(rest).encode(), np.uint8)}


def _part(made: Any, at: str, tables: dict[str, NDArray[Any]]) -> dict[str, Any]:
    """Return what is left of an object without its tables, which are put under their places."""
    left: dict[str, Any] = {"kind": type(made).__name__}
    for field in fields(made):
        value = getattr(made, field.name)
        if isinstance(value, np.ndarray):
            tables[f"{at}{field.name}"] = np.ascontiguousarray(value)
        elif isinstance(value, Nesting):
            left[field.name] = _part(value, f"{at}{field.name}.", tables)
        else:
            left[field.name] = value
    return left


def _assembled(tables: dict[str, NDArray[Any]]) -> Any:
    return _whole(json.loads(tables[REST].tobytes()), "", tables)


def _whole(left: dict[str, Any], at: str, tables: dict[str, NDArray[Any]]) -> Any:
    kind = KINDS[left["kind"]]
    given: dict[str, Any] = {}
    for field in fields(kind):
        value = left.get(field.name)
        if field.name not in left:
            # A copy: what is read out of a file's bytes cannot be written to, of which torch warns.
            value = tables[f"{at}{field.name}"].copy()
        elif isinstance(value, dict):
            value = _whole(value, f"{at}{field.name}.", tables)
        elif isinstance(value, list):
            value = tuple(value)
        given[field.name] = value
    return kind(**given)
