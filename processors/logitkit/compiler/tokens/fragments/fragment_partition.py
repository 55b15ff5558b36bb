"""The classes of all tokens in several fragments at once, whatever follows the fragments: found once for each set of fragments.

Schemas have few sets of fragments: any string alone, any string and dates, and so on. Two tokens of one class here are of one
class in every automaton with these fragments, unless a walk finds a difference in another state. So an automaton looks at
hundreds of classes, not at all tokens.

By hand, for two fragments: the tokens 0, 1 and 2 have the classes 1, 1 and 0 in the first one, and 2, 0 and 0 in the second
one. The pairs are (1, 2), (1, 0) and (0, 0). Token 2 is dead in both fragments, so its class is 0; the others have classes of
their own.

Invariants: tokens of one class are of one class in each fragment. Class 0 is dead in all of them.
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
        class_of: [V] the class of each token; 0 is dead in all fragments.
        size: [C] the number of tokens of each class.
        example: [C] a token of each class.
        of_fragment: For each fragment, by its `uncounted_key`: [C] the class in this fragment of the tokens of each class.
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
        fragments: The fragments, and the effects of tokens in each.
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
        # In 16 bits where they fit, so that more sets of fragments are kept.
        found = FragmentPartition(
            class_of.astype(np.int16 if len(size) < 2**15 else np.int32), size, example, of_fragment
        )
        with _lock:
            known.keep(keys, found, found.class_of.nbytes + len(example) * (16 + 4 * len(keys)))
    return found
