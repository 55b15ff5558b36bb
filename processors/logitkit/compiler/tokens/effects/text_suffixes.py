"""The suffixes of tokens that end free text, and their actions in the states after it.

By hand: free text until `</think>` ends inside of the token `>{"`, and leaves the suffix `{"`. In an automaton with JSON after
the text, this suffix leads to the beginning of a name. If a full stop follows, it is dead.

The tokens that end a text, and how many bytes they leave, depend on the marker alone. So the suffixes are known for each
vocabulary and marker (`TextSuffixes`), and only their actions are found for each automaton (`TextSuffixActions`).

Invariants: suffix 0 is empty. No bracket is open in free text, so a suffix never closes one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import spend
from logitkit.compiler.bytes.byte_dfa import DEAD
from logitkit.compiler.bytes.nested_step import NestedStep
from logitkit.compiler.bytes.sorting import looked_up
from logitkit.compiler.tokens.effects.action_numbering import ActionNumbering
from logitkit.compiler.tokens.effects.trie_walk import TrieWalk
from logitkit.compiler.tokens.effects.walked_prefixes import WalkStarts
from logitkit.vocabulary.trie import Trie
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["TextSuffixActions", "TextSuffixes"]

Ints = NDArray[np.int64]


@dataclass(frozen=True, eq=False, slots=True)
class TextSuffixes:
    """The suffixes of some tokens, numbered from 1 on; number 0 is the empty suffix.

    Args:
        trie: The suffixes as tokens of a trie; id `n` has number `n + 1`.
        count: The number of suffixes, the empty one included.
        width: More than the number of bytes of any token.
        keys: Each token and number of bytes left, as `token * width + bytes`, ascending.
        numbers: The suffix for each key.
    """

    trie: Trie
    count: int
    width: int
    keys: Ints
    numbers: Ints

    @classmethod
    def of(cls, vocabulary: Vocabulary, tokens: Ints, left: Ints) -> TextSuffixes:
        """Number the suffixes.

        Args:
            vocabulary: The tokens.
            tokens: Ids.
            left: How many bytes of each are left.
        """
        width = vocabulary.trie.depth + 1
        keys = np.unique(tokens * width + left)
        keys = keys[keys % width > 0]
        texts = [(vocabulary.tokens[t] or b"")[-n:] for t, n in zip(*np.divmod(keys, width), strict=True)]
        number = {text: i + 1 for i, text in enumerate(sorted(set(texts)))}
        found = np.array([number[text] for text in texts], np.int64)
        return cls(Trie.of([*number]), len(number) + 1, width, keys, found)

    def __len__(self) -> int:
        return self.count

    def find(self, tokens: NDArray[np.integer], left: NDArray[np.integer]) -> Ints:
        """Return the number of the suffix in the last `left` bytes of each token; 0 if no byte is left."""
        found = np.zeros(len(tokens), np.int64)
        some = np.flatnonzero(left)
        keys = tokens[some].astype(np.int64) * self.width + left[some]
        found[some] = self.numbers[np.searchsorted(self.keys, keys)]
        return found


class TextSuffixActions:
    """The actions of suffixes in the states after free text.

    Args:
        token_suffixes: The suffixes.
        exits: The states after the text, or ends of the automaton (`NestedStep`).
        walk: Follows suffixes through the automaton.
        actions: Gives numbers to their actions.
    """

    def __init__(self, token_suffixes: TextSuffixes, exits: Ints, walk: TrieWalk, actions: ActionNumbering) -> None:
        self.token_suffixes, self.actions = token_suffixes, actions
        self._return_state = walk.dfa.return_state
        ends = NestedStep.number(exits[NestedStep.is_end(exits)])
        states = np.unique(np.concatenate([exits, self._return_state[ends].ravel()]))
        states = states[states > DEAD]
        found, _ = walk.follow(token_suffixes.trie, WalkStarts.at_root(states))
        keys = np.concatenate([states * len(token_suffixes), found.source * len(token_suffixes) + found.token + 1])
        order = np.argsort(keys)
        self._keys, self._values = keys[order], np.concatenate([states, found.action])[order]

    def of(self, exits: Ints, token_suffixes: Ints) -> Ints:
        """Return the numbers of the actions of suffixes after exits, `DEAD` if they lead nowhere."""
        found = looked_up(self._keys, self._values, exits * len(self.token_suffixes) + token_suffixes)
        for at in np.flatnonzero(NestedStep.is_end(exits)).tolist():
            found[at] = self._pop(NestedStep.number(int(exits[at])), int(token_suffixes[at]))
        return found

    def _pop(self, end: int, token_suffix: int) -> int:
        """Return the number of the action of an end after which a suffix continues."""
        returned = self._return_state[end]
        frames = np.flatnonzero(returned)
        after = self.of(returned[frames].astype(np.int64), np.full(len(frames), token_suffix))
        live = np.flatnonzero(after)
        spend(1 + len(live))
        return self.actions.pop(tuple(zip(frames[live].tolist(), after[live].tolist(), strict=True)))
