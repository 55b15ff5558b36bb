"""The classes of all tokens in several fragments at once, whatever comes after them: worked out once for each set of fragments.

Schemas have few sets of fragments: any string alone, any string and dates, and so on. Two tokens that are of one class here are
of one class in every automaton with these fragments, unless a walk tells them apart. So an automaton looks at hundreds of
classes, not at all tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from threading import Lock
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np

from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.compiler.bytes.sorting import pair_numbers
from logitkit.compiler.bytes.string_fragment import StringFragment
from logitkit.compiler.bytes.transition_columns import Ints
from logitkit.compiler.tokens.fragments.fragment_tokens import FragmentTokens
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["FragmentPartition", "fragment_partition"]

# The most bytes that are kept for one vocabulary.
REMEMBERED_BYTES = 16 * 2**20


class FragmentPartition(NamedTuple):
    """The classes.

    Args:
        class_of: [V] class of each token; 0 is dead in all fragments.
        size: [C] the number of tokens in each class.
        example: [C] one of them.
        of_fragment: [C] for each fragment, by its `uncounted_key`: the class of these tokens in that fragment.
    """

    class_of: Ints
    size: Ints
    example: Ints
    of_fragment: dict[bytes, Ints]


_known: WeakKeyDictionary[Vocabulary, BoundedCache[tuple[bytes, ...], FragmentPartition]] = WeakKeyDictionary()
_lock = Lock()


def fragment_partition(
    fragments: Sequence[tuple[StringFragment, FragmentTokens]], vocabulary: Vocabulary
) -> FragmentPartition:
    """Return the classes of the tokens of a vocabulary in some fragments.

    Args:
        fragments: The fragments, and what tokens do in each.
        vocabulary: The tokens.
    """
    tokens_of = {fragment.uncounted_key: tokens for fragment, tokens in fragments}
    keys = tuple(sorted(tokens_of))
    with _lock:
        known = _known.setdefault(vocabulary, BoundedCache(REMEMBERED_BYTES))
        found = known.get(keys)
    if found is None:
        class_of = np.zeros(vocabulary.size, np.int32)
        for key in keys:
            class_of = pair_numbers(class_of, tokens_of[key].class_of)
        example = np.zeros(int(class_of.max(initial=0)) + 1, np.int64)
        example[class_of] = np.arange(len(class_of))
        of_fragment = {key: tokens_of[key].class_of[example].astype(np.int32) for key in keys}
        # Class 0 may have no token.
        for classes in of_fragment.values():
            classes[0] = 0
        size = np.bincount(class_of, minlength=len(example))
        # In half of the memory, twice as many sets of fragments are kept.
        found = FragmentPartition(
            class_of.astype(np.int16 if len(size) < 2**15 else np.int32), size, example, of_fragment
        )
        with _lock:
            known.keep(keys, found, found.class_of.nbytes + len(example) * (16 + 4 * len(keys)))
    return found
