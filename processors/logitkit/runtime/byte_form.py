"""A constraint byte by byte: its automaton over a vocabulary in which every byte is a token."""

from __future__ import annotations

import warnings
from codecs import getincrementaldecoder
from collections.abc import Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.errors import LogitkitError
from logitkit.patterns.charset import CharSet
from logitkit.runtime.compiled_language import CompiledLanguage
from logitkit.runtime.walk import Walk
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["ByteForm", "byte_form", "with_vocabulary"]

_EXTENDED: WeakKeyDictionary[Vocabulary, Vocabulary] = WeakKeyDictionary()


class ByteForm(NamedTuple):
    """An automaton that reads bytes, and the ids of the vocabulary as before.

    Args:
        constraint: The constraint over the vocabulary with all bytes.
        byte_ids: The token id of each byte.
    """

    constraint: CompiledLanguage
    byte_ids: tuple[int, ...]

    @property
    def automaton(self) -> TokenAutomaton:
        """The automaton over the vocabulary with all bytes."""
        return self.constraint.automaton

    def start(self) -> Walk:
        """Return the place of the empty text. Tokens are not counted."""
        return Walk.start(self.automaton)

    def legal_bytes(self, walk: Walk) -> list[int]:
        """Return the bytes that are legal."""
        legal = {*walk.legal_ids(np.array(self.byte_ids)).tolist()}
        return [byte for byte, token in enumerate(self.byte_ids) if token in legal]

    def viable_prefix(self, history: Sequence[int], data: bytes) -> tuple[bytes, Walk]:
        """Return the longest beginning of a text that can be completed, and the place at which its last character begins.

        Args:
            history: The tokens before, which can be completed.
            data: The bytes after them.
        """
        decode, first = self.constraint.vocabulary.decode, len(history)
        while _begun(decode(history[:first])):
            first -= 1
        done, text = len(decode(history[:first])), decode(history) + data
        walk = character = self.start().after(*history[:first])
        while done < len(text) and walk.allows(self.byte_ids[text[done]]):
            walk, done = walk.after(self.byte_ids[text[done]]), done + 1
            character = character if _begun(text[:done]) else walk
        return text[:done], character

    def is_too_deep(self, history: Sequence[int], data: bytes) -> bool:
        """Whether only the maximum depth refuses the last byte of a text.

        Args:
            history: The tokens before.
            data: The bytes after them, of which the last one is illegal.
        """
        nesting = self.automaton.nesting
        if nesting.is_flat or not data:
            return False
        deeper = replace(nesting, max_depth=nesting.max_depth + 1 + len(data))
        layers = tuple(
            replace(layer, nesting=replace(layer.nesting, max_depth=deeper.max_depth))
            for layer in self.automaton.layers
        )
        automaton = replace(self.automaton, nesting=deeper, layers=layers)
        if automaton.remembers is not None:
            from logitkit.runtime.remembering.byte_steps import bind

            bind(automaton, self.constraint.vocabulary)
        return Walk.start(automaton).after(*history, *(self.byte_ids[byte] for byte in data)).is_live

    def next_characters(self, walk: Walk) -> CharSet:
        """Return the characters that may come next."""
        known: dict[Any, list[tuple[int, int]]] = {}
        ranges = []
        for byte in self.legal_bytes(walk):
            length = _continuations(byte)
            if length >= 0:
                value = byte if not length else byte & (0x3F >> length)
                rest = self._rest(walk.after(self.byte_ids[byte]), length, known)
                ranges.extend(_shifted(rest, value << 6 * length))
        return CharSet.of(ranges)

    def _rest(self, walk: Walk, length: int, known: dict[Any, list[tuple[int, int]]]) -> list[tuple[int, int]]:
        """Return the bits that the next bytes of a character may have, as ranges."""
        if not length:
            return [(0, 0)]
        key = (walk.key, length)
        if key not in known:
            ranges = []
            for byte in self.legal_bytes(walk):
                rest = self._rest(walk.after(self.byte_ids[byte]), length - 1, known)
                ranges.extend(_shifted(rest, (byte & 0x3F) << 6 * (length - 1)))
            known[key] = list(CharSet.of(ranges).ranges)
        return known[key]


def byte_form(constraint: CompiledLanguage) -> ByteForm | None:
    """Return a constraint byte by byte, or None if it is defined over token ids.

    If every byte is a token of its vocabulary, its own automaton is enough.
    """
    try:
        own = set(constraint.own_ids()) | set(constraint.vocabulary.special.values())
        byte_ids = _byte_ids(constraint.vocabulary, own)
        if None not in byte_ids:
            return ByteForm(constraint, byte_ids)  # type: ignore[arg-type]
        vocabulary = _EXTENDED.get(constraint.vocabulary)
        if vocabulary is None:
            vocabulary = _EXTENDED[constraint.vocabulary] = _extended(constraint.vocabulary)
        with warnings.catch_warnings():
            # The constraint gave its warnings when it was created.
            warnings.simplefilter("ignore")
            again = with_vocabulary(constraint, vocabulary)
    except LogitkitError:
        return None
    size = constraint.vocabulary.size
    return ByteForm(again, tuple(range(size, size + 256)))


def _byte_ids(vocabulary: Vocabulary, own: set[int]) -> tuple[int | None, ...]:
    found = (vocabulary.trie.tokens_at(bytes([byte])) for byte in range(256))
    return tuple(next((token for _, token in one if token not in own), None) for one in found)


def _extended(vocabulary: Vocabulary) -> Vocabulary:
    every_byte = (bytes([byte]) for byte in range(256))
    tokens = (*vocabulary.tokens, *every_byte)
    return Vocabulary(tokens, vocabulary.eos_ids, pad_id=vocabulary.pad_id, special=dict(vocabulary.special))


def with_vocabulary(value: Any, vocabulary: Vocabulary) -> Any:
    """Return a constraint, and all constraints in it, with another vocabulary and without a limit of tokens."""
    if isinstance(value, tuple) and any(isinstance(part, CompiledLanguage) for part in value):
        return tuple(with_vocabulary(part, vocabulary) for part in value)
    if not isinstance(value, CompiledLanguage) or not is_dataclass(value):
        return value
    changes: dict[str, Any] = {
        f.name: with_vocabulary(getattr(value, f.name), vocabulary) for f in fields(value) if f.init
    }
    if "vocabulary" in changes:
        changes["vocabulary"] = vocabulary
    if "closing" in changes:
        # The limit counts tokens of the other vocabulary.
        changes["closing"] = False
    return replace(value, **changes)


def _begun(text: bytes) -> bytes:
    """Return the last bytes of a text, if they are the beginning of a character."""
    decoder = getincrementaldecoder("utf-8")("ignore")
    decoder.decode(text[-4:])
    return decoder.getstate()[0]


def _continuations(byte: int) -> int:
    """Return how many bytes follow the first byte of a character, or -1 if it is not one."""
    if byte < 0x80:
        return 0
    return 1 if 0xC2 <= byte < 0xE0 else 2 if 0xE0 <= byte < 0xF0 else 3 if 0xF0 <= byte < 0xF5 else -1


def _shifted(ranges: list[tuple[int, int]], by: int) -> list[tuple[int, int]]:
    return [(first + by, last + by) for first, last in ranges]
