"""An automaton over tokens, read byte by byte, with the tokens of single bytes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.nested_grammars.remembered_arrays import Remembers
from logitkit.compiler.tokens.tables.counted_state import StateAndCount
from logitkit.compiler.tokens.tables.mask_key import NO_LIMIT
from logitkit.compiler.tokens.tables.packed_stacks import Packed
from logitkit.compiler.tokens.tables.token_automaton import TokenAutomaton
from logitkit.runtime.remembering.item_tokens import ItemTokens
from logitkit.runtime.remembering.json_text import JsonMode
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["ByteSteps", "bind", "steps_of"]

# The most bytes that are kept of what may follow in a position, and of positions.
REMEMBERED_BYTES = 2**21


class ShapedTokens(NamedTuple):
    """Tokens that are legal in one position, by their shapes.

    Args:
        whole: Those in which a value may begin and end, or with white space.
        crossing: Others that may begin an item, each with the most bytes of it.
        ends: Others in which a number or an object may end.
    """

    whole: list[int]
    crossing: list[tuple[int, int]]
    ends: list[int]


class ByteSteps:
    """The steps of an automaton by bytes.

    Args:
        automaton: The automaton, some of whose states remember items.
        tokens: The tokens of its vocabulary.
    """

    def __init__(self, automaton: TokenAutomaton, tokens: ItemTokens) -> None:
        assert automaton.remembers is not None
        self.automaton, self.tokens = automaton, tokens
        self._remembers = automaton.remembers.tolist()
        # Every byte of the language's texts is a token (`can_remember`).
        self._is_token = np.array(tokens.byte_ids) >= 0
        self._class_of_byte = automaton.class_of[list(tokens.byte_ids)]
        self._legal: BoundedCache[tuple[int, Packed], bytes] = BoundedCache(REMEMBERED_BYTES)
        self._shaped: BoundedCache[Any, ShapedTokens] = BoundedCache(REMEMBERED_BYTES)
        self._openers: BoundedCache[Any, list[int]] = BoundedCache(REMEMBERED_BYTES)
        self._numeric: BoundedCache[Any, list[int]] = BoundedCache(REMEMBERED_BYTES)
        # The bytes that may follow beginnings of items.
        self.following: BoundedCache[tuple[int, Packed, bytes], frozenset[bytes]] = BoundedCache(REMEMBERED_BYTES)
        self.positions: BoundedCache[tuple[int, Packed, bytes], Any] = BoundedCache(2 * REMEMBERED_BYTES)

    def after(self, state: int, stack: Packed, byte: int) -> tuple[int, Packed]:
        """Return the state and the stack after a byte."""
        token = self.tokens.byte_ids[byte]
        # A byte that is not a token is in no text of the language; -1 would stand for no token.
        return self.automaton.step(state, stack, token) if token >= 0 else (DEAD, stack)

    def remembers(self, state: int) -> bool:
        """Whether a state follows the bracket of an array whose items must differ."""
        return bool(self._remembers[StateAndCount.state(state)])

    def is_beginning(self, state: int) -> bool:
        """Whether a number is that of such a state, whatever it is."""
        return 0 <= state < len(self._remembers) and self.remembers(state)

    def is_varied(self, state: int) -> bool:
        """Whether the items of such an array differ in kind from place to place."""
        return bool(self._remembers[StateAndCount.state(state)] == Remembers.VARIED)

    def legal(self, state: int, stack: Packed) -> bytes:
        """Return the bytes that the automaton allows."""
        found = self._legal.get((state, stack))
        if found is None:
            legal = self.automaton.legal(self.automaton.mask_key(state, stack, NO_LIMIT))
            found = bytes((legal[self._class_of_byte] & self._is_token).nonzero()[0].tolist())
            self._legal.keep((state, stack), found, len(found) + len(stack) + 100)
        return found

    def openers(self, state: int, stack: Packed) -> list[int]:
        """Return the tokens that the automaton allows and in which an array with several items may begin."""
        key = self.automaton.mask_key(state, stack, NO_LIMIT)
        found = self._openers.get(key)
        if found is None:
            legal = self._legal_among(self.tokens.openers, key)
            found = self._openers.keep(key, legal, 100 + 8 * len(legal))
        return found

    def numeric(self, state: int, stack: Packed) -> list[int]:
        """Return the tokens that the automaton allows and in which a number may have another spelling than its shortest."""
        key = self.automaton.mask_key(state, stack, NO_LIMIT)
        found = self._numeric.get(key)
        if found is None:
            legal = self._legal_among(self.tokens.numeric, key)
            found = self._numeric.keep(key, legal, 100 + 8 * len(legal))
        return found

    def _legal_among(self, ids: NDArray[np.int64], key: Any) -> list[int]:
        """Return those of some tokens that are legal for a mask key."""
        legal: list[int] = ids[self.automaton.legal(key)[self.automaton.class_of[ids]]].tolist()
        return legal

    def shaped(self, state: int, stack: Packed, mode: JsonMode, begins_value: bool) -> ShapedTokens:
        """Return the tokens that the automaton allows and that have a shape; see `ItemTokens.shape`."""
        key = self.automaton.mask_key(state, stack, NO_LIMIT), mode, begins_value
        found = self._shaped.get(key)
        if found is None:
            legal = self._legal_among(self.tokens.shaped(mode), key[0])
            shapes = [(token, self.tokens.shape(token, mode, begins_value)) for token in legal]
            found = ShapedTokens(
                [token for token, shape in shapes if shape.is_whole or shape.has_space],
                [(token, shape.begins) for token, shape in shapes if shape.begins >= 0 and not any(shape[1::2])],
                [token for token, shape in shapes if shape.ends and not any(shape[1::2])],
            )
            self._shaped.keep(key, found, 100 * (1 + len(shapes)))
        return found


def bind(automaton: TokenAutomaton, vocabulary: Vocabulary) -> None:
    """Let an automaton that remembers items know its vocabulary, which its rows read."""
    if "byte_steps" not in automaton.__dict__:
        automaton.__dict__["byte_steps"] = ByteSteps(automaton, item_tokens(vocabulary))


def steps_of(automaton: TokenAutomaton) -> ByteSteps:
    """Return the steps by bytes of an automaton that is bound."""
    found: ByteSteps = automaton.__dict__["byte_steps"]
    return found


def item_tokens(vocabulary: Vocabulary) -> ItemTokens:
    """Return the tokens of a vocabulary, which all automata share."""
    found: ItemTokens | None = vocabulary.__dict__.get("_item_tokens")
    if found is None:
        found = vocabulary.__dict__["_item_tokens"] = ItemTokens(vocabulary)
    return found
