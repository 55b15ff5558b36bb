"""An automaton over tokens, read byte by byte, with the tokens of single bytes."""

from __future__ import annotations

from dataclasses import dataclass
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
from logitkit.runtime.remembering.json_text import AFTER_NUMBER, IN_NUMBER, JsonMode
from logitkit.runtime.remembering.used_items import MOST_BEGUN
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["ByteSteps", "bind", "steps_of"]

# The most bytes that are kept of what may follow in a position, and of positions.
REMEMBERED_BYTES = 2**21

EMPTY = (b"[]", b"{}")

# With these, a number may have another spelling than its shortest, besides a sign.
RESPELLING = b"0.eE"


class CrossingToken(NamedTuple):
    """A token in which an item may end, and another one begin.

    Args:
        token: Its id.
        begins: The most bytes that it has of an item.
        is_sign: Whether these are a sign at its end, which may lead to -0 only.
        only_opens: Whether it has no comma and no closing bracket outside of strings.
        has_bracket: Whether it has a bracket outside of strings; if not, the innermost array or object goes on.
        is_plain: Whether it has none, begins with few bytes of an item, and no number in it has another spelling than its
            shortest.
    """

    token: int
    begins: int
    is_sign: bool
    only_opens: bool
    has_bracket: bool
    is_plain: bool


@dataclass(frozen=True, slots=True, eq=False)
class ShapedTokens:
    """Tokens that are legal in one position, by their shapes. Equal ones of one automaton and mode are the same object.

    Args:
        whole: Those in which a value may begin and end; but not empty arrays and objects, which have no other spelling.
        spaced: Others with white space outside of strings, and whether they do nothing else but to begin a value, which has one
            spelling, with few bytes.
        crossing: All but the first that may begin an item.
        longest: The most bytes of an item in these; -1: there are none.
        ends: Others in which a number or an object may end, at their first byte.
        digits: Others in which a number may end after more of it.
        has_choice: Whether at least two bytes may follow, besides several that end a number.
        is_plain: Whether nothing but crossing tokens that are plain and short, and tokens that end values, may use up an item.
    """

    whole: list[int]
    spaced: list[tuple[int, bool]]
    crossing: list[CrossingToken]
    longest: int
    ends: list[int]
    digits: list[int]
    has_choice: bool
    is_plain: bool


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
        # The brackets after which something is remembered.
        kinds = {*self._remembers}
        has_arrays = not kinds.isdisjoint((Remembers.ALIKE, Remembers.VARIED))
        self.brackets = b"[" * has_arrays + b"{" * (not kinds.isdisjoint((Remembers.NAMES, Remembers.SAME_NAMES)))
        # Every byte of the language's texts is a token (`can_remember`).
        self._is_token = np.array(tokens.byte_ids) >= 0
        self._class_of_byte = automaton.class_of[list(tokens.byte_ids)]
        self._legal: BoundedCache[tuple[int, Packed], bytes] = BoundedCache(REMEMBERED_BYTES)
        self._shaped: BoundedCache[Any, ShapedTokens] = BoundedCache(REMEMBERED_BYTES)
        self._same_shaped: BoundedCache[Any, ShapedTokens] = BoundedCache(REMEMBERED_BYTES)
        self._openers: BoundedCache[Any, list[int]] = BoundedCache(REMEMBERED_BYTES)
        # Tokens that go on with a number and may settle or end it, and whether beginnings of numbers are settled.
        self.numeric: BoundedCache[Any, list[int]] = BoundedCache(REMEMBERED_BYTES)
        self.settled: BoundedCache[Any, bool] = BoundedCache(REMEMBERED_BYTES)
        # The bytes that may follow beginnings of items.
        self.following: BoundedCache[tuple[int, Packed, bytes], frozenset[bytes]] = BoundedCache(REMEMBERED_BYTES)
        self._next_places: BoundedCache[tuple[int, Packed, int], tuple[int, Packed]] = BoundedCache(REMEMBERED_BYTES)
        self.positions: BoundedCache[tuple[int, Packed, bytes], Any] = BoundedCache(4 * REMEMBERED_BYTES)

    def after(self, state: int, stack: Packed, byte: int) -> tuple[int, Packed]:
        """Return the state and the stack after a byte."""
        token = self.tokens.byte_ids[byte]
        # A byte that is not a token is in no text of the language; -1 would stand for no token.
        return self.automaton.step(state, stack, token) if token >= 0 else (DEAD, stack)

    def after_all(self, state: int, stack: Packed, text: bytes) -> tuple[int, Packed]:
        """Return the state and the stack after a text."""
        for byte in text:
            state, stack = self.after(state, stack, byte)
        return state, stack

    def next_place(self, state: int, stack: Packed, crossing: CrossingToken) -> tuple[int, Packed]:
        """Return the state and the stack where an item or name begins in a token without brackets."""
        key = state, stack, crossing.token
        found = self._next_places.get(key)
        if found is None:
            text = self.tokens.texts[crossing.token] or b""
            found = self.after_all(state, stack, text[: len(text) - crossing.begins])
            self._next_places.keep(key, found, 2 * len(stack) + 100)
        return found

    def remembers(self, state: int) -> bool:
        """Whether a state follows the bracket of an array whose items must differ, or an object whose names must."""
        return bool(self._remembers[StateAndCount.state(state)])

    def remembers_names(self, state: int) -> bool:
        """Whether such a state follows the bracket of an object whose names must differ."""
        return self._remembers[StateAndCount.state(state)] in (Remembers.NAMES, Remembers.SAME_NAMES)

    def is_beginning(self, state: int) -> bool:
        """Whether a number is that of such a state, whatever it is."""
        return 0 <= state < len(self._remembers) and self.remembers(state)

    def is_varied(self, state: int) -> bool:
        """Whether the items or names differ in kind from place to place."""
        return self._remembers[StateAndCount.state(state)] in (Remembers.VARIED, Remembers.NAMES)

    def legal(self, state: int, stack: Packed) -> bytes:
        """Return the bytes that the automaton allows."""
        found = self._legal.get((state, stack))
        if found is None:
            legal = self.automaton.legal(self.automaton.mask_key(state, stack, NO_LIMIT))
            found = bytes((legal[self._class_of_byte] & self._is_token).nonzero()[0].tolist())
            self._legal.keep((state, stack), found, len(found) + len(stack) + 100)
        return found

    def openers(self, state: int, stack: Packed) -> list[int]:
        """Return the tokens that the automaton allows and in which an array or object that remembers several parts may begin."""
        key = self.automaton.mask_key(state, stack, NO_LIMIT)
        found = self._openers.get(key)
        if found is None:
            legal = self._legal_among(self.tokens.openers(self.brackets), key)
            found = self._openers.keep(key, legal, 100 + 8 * len(legal))
        return found

    def legal_among(self, ids: NDArray[np.int64], state: int, stack: Packed) -> list[int]:
        """Return those of some tokens that the automaton allows."""
        return self._legal_among(ids, self.automaton.mask_key(state, stack, NO_LIMIT))

    def _legal_among(self, ids: NDArray[np.int64], key: Any) -> list[int]:
        legal: list[int] = ids[self.automaton.legal(key)[self.automaton.class_of[ids]]].tolist()
        return legal

    def shaped(self, state: int, stack: Packed, mode: JsonMode, begins_value: bool) -> ShapedTokens:
        """Return the tokens that the automaton allows and that have a shape; see `ItemTokens.shape`."""
        key = self.automaton.mask_key(state, stack, NO_LIMIT), mode, begins_value
        found = self._shaped.get(key)
        if found is None:
            found = self._shaped_tokens(key[0], mode, begins_value, self.legal(state, stack))
            kept: tuple[list[Any], ...] = (found.whole, found.spaced, found.crossing, found.ends, found.digits)
            content = mode, found.has_choice, *(tuple(tokens) for tokens in kept)
            size = 100 * (1 + sum(len(tokens) for tokens in kept))
            found = self._same_shaped.get(content) or self._same_shaped.keep(content, found, 2 * size)
            self._shaped.keep(key, found, size)
        return found

    def _shaped_tokens(self, key: Any, mode: JsonMode, begins_value: bool, legal: bytes) -> ShapedTokens:
        texts, tokens = self.tokens.texts, self._legal_among(self.tokens.shaped(mode), key)
        shapes = [(token, self.tokens.shape(token, mode, begins_value)) for token in tokens]
        parts = [(token, shape) for token, shape in shapes if not shape.is_whole]
        crossing = [
            CrossingToken(
                token,
                shape.begins,
                shape.begins == 1 and text.endswith(b"-"),
                shape.only_opens,
                shape.has_bracket,
                not shape.has_bracket and shape.begins <= MOST_BEGUN and _has_one_spelling(text),
            )
            for token, shape in parts
            if shape.begins >= 0
            for text in [texts[token] or b""]
        ]
        spaced = [
            (
                token,
                begins_value
                and not (shape.has_bracket or shape.ends)
                and len(text.lstrip()) <= MOST_BEGUN
                and _has_one_spelling(text),
            )
            for token, shape in parts
            if shape.has_space
            for text in [texts[token] or b""]
        ]
        ending = [token for token, shape in parts if shape.ends]
        others = legal.translate(None, AFTER_NUMBER)
        return ShapedTokens(
            [token for token, shape in shapes if shape.is_whole and texts[token] not in EMPTY],
            spaced,
            crossing,
            max([one.begins for one in crossing], default=-1),
            [token for token in ending if (texts[token] or b"")[0] not in IN_NUMBER],
            [token for token in ending if (texts[token] or b"")[0] in IN_NUMBER],
            len(others) + (len(others) < len(legal)) > 1,
            all(one.is_plain for one in crossing),
        )


def _has_one_spelling(text: bytes) -> bool:
    """Whether no number in a text has another spelling than its shortest, as far as it is written, but for a sign."""
    return len(text.translate(None, RESPELLING)) == len(text)


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
