r"""Raw text between two markers, followed as one fragment, which counts characters, lines or words if their number is limited.

In the format of Qwen-Coder, a string of at most 64 characters stands like this:

    <parameter=city>
    Berlin
    </parameter>

While the text is read, `\n</parameter` may be its own or the beginning of the end. So an automaton has a state for each number
of characters of the end that have been read, and with `maxLength` one for each of these and each length: a thousand. Here the
text and its end are one fragment (`compiler.bytes.string_fragment`): what tokens do in it is worked out once for all tools and
requests. In it all characters are counted: those of the text, and those of the end up to its last one. A text of at most 64
characters has at most 64 + 12 of them when the last character of the end is read. Before that, a state is legal with a count if
what it still needs fits, which is one bound.

If the text may end with one of two markers (`ValueEnds`), one is shorter: up to its last character, fewer are counted. So each
end has bounds of its own, and what is needed up to the shorter one has the difference added (`Counted`). An automaton with these
sums is one in which the shorter end is followed by as many other characters, which no text reaches: they are cut off.

That one bound is right only if a text which is too short can always go on to be longer. This holds if no text is too short. It
also holds if any text is allowed, and the lengths leave room for the characters of the end: they are then text, up to the last
one, which completes the marker.

Lines and words are limited by a pattern (`limited_items`). The fragment is that of the text without the limit, and counts what
stands between two of them, also in the end. The same bound holds, as there is no least number. If characters are counted as well,
lines and words have states.

Other strings are fragments only if any text is allowed: a pattern or a few words have few states of their own, or take long.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from logitkit.budget import outside_budget
from logitkit.compiler.bounded_cache import BoundedCache
from logitkit.compiler.bytes.in_utf8 import to_bytes
from logitkit.compiler.bytes.string_fragment import StringFragment, counting, counting_byte
from logitkit.compiler.characters.components import reached
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.text_language import TextLanguage
from logitkit.json_schema.search import ANY_LENGTH
from logitkit.json_schema.string_set import StringSet
from logitkit.languages.limited_items import limited_items
from logitkit.languages.value_ends import ValueEnds
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import alternate, concatenate
from logitkit.patterns.syntax import Characters, Node

__all__ = ["text_fragment"]

# The bytes of a character after its first, and more characters than are counted.
INSIDE, MOST = 3, 2**30

# The cost of writing a set, in steps.
STEPS_ANY, STEPS_A_STATE = 500, 10

# The sets that are kept for all vocabularies.
_known: BoundedCache[Hashable, _Uncounted | None] = BoundedCache(8 * 2**20)
_lock = Lock()


def text_fragment(
    strings: StringSet, without: TextLanguage, ends: ValueEnds, longest: int, closing: bool
) -> StringFragment | None:
    """Return the fragment of some strings and what follows them, or None if that is not possible, or would not pay.

    Args:
        strings: The strings.
        without: The texts in which the marker of the ends does not occur.
        ends: The texts after the strings.
        longest: The most characters of a token; 0 if fragments of raw text are not allowed.
        closing: Whether a text that has begun must be completed within a number of tokens.
    """
    counts = strings.lengths != ANY_LENGTH and strings.counts(longest, closing)
    limited = None if counts else limited_items(strings, ends)
    if not longest or not (counts or limited or strings.is_everything) or not "".join(ends.texts).isascii():
        return None
    texts = limited.texts if limited else strings.texts
    key = texts.key, without.key, ends, counts and len(ends.texts) > 1
    strings.limits.spend(STEPS_ANY)
    try:
        found = _known[key]
    except KeyError:
        with outside_budget():
            found = _fragment(texts & without, ends, counts)
        with _lock:
            _known.keep(key, found, 0 if found is None else 2 * found.fragment.step.nbytes)
    if found is None:
        return None
    if limited:
        strings.limits.spend(STEPS_A_STATE * found.fragment.states)
        return counting_byte(found.fragment, limited.separator, limited.most)
    if not counts:
        return found.fragment
    least, most = strings.lengths
    if most is not None and found.shortest > most:
        return None
    before = max(map(len, ends.texts)) - 1
    # White space after the marker comes too late to be text after all.
    room = strings.texts.is_everything and not any(end[-1].isspace() for end in ends.texts)
    room = room and (most is None or least + before <= most + 1)
    # How many tokens are needed to the end must not depend on the count.
    if least > found.shortest and (closing or not room):
        return None
    strings.limits.spend(STEPS_A_STATE * found.fragment.states)
    bounds = least + before, MOST if most is None else most + before
    return counting(found.fragment, found.needed, INSIDE, tuple((bounds[0] - n, bounds[1] - n) for n in found.shorter))


class _Uncounted(NamedTuple):
    """A fragment that does not count yet.

    Args:
        fragment: The fragment.
        needed: For each state in which a character may begin, the least number of characters up to the last one of an end, with
            the difference added if that is a shorter end.
        shorter: For each end, how many characters shorter it is than the longest one, if the fragment is to count.
        shortest: The length of the shortest text.
    """

    fragment: StringFragment
    needed: NDArray[np.int64]
    shorter: tuple[int, ...]
    shortest: int


def _fragment(texts: TextLanguage, ends: ValueEnds, counts: bool) -> _Uncounted | None:
    """Return the fragment of some texts with their ends, or None if there are none.

    Args:
        texts: The texts.
        ends: The ends, which lead on alike.
        counts: Whether ends of different lengths must be told apart.
    """
    if texts.is_empty:
        return None
    # A shorter end is filled up with characters that stand in no end.
    filler = next(character for character in map(chr, range(128)) if character not in "".join(ends.texts))
    size = max(map(len, ends.texts)) if counts else 0
    options: list[Node] = []
    for end in ends.texts:
        before = texts if end == ends.longest else ends.free(texts)
        if not before.is_empty:
            tail = [Characters(CharSet.single(ord(character))) for character in end.ljust(size, filler)]
            options.append(concatenate([before.machine(), *tail]))
    whole = TextLanguage.of_tree(alternate(options), texts.limits)
    dfa, needed, shorter = _without_filler(whole, filler)
    # Nothing goes on after an end, so all states that accept are ends.
    marks = [int(accepts) for accepts in dfa.accepting]
    fragment = StringFragment.of(to_bytes(dfa, whole.alphabet, texts.limits), marks)
    return _Uncounted(replace(fragment, is_text=True), needed, shorter, int(texts.needed[0]))


def _without_filler(whole: TextLanguage, filler: str) -> tuple[SymbolDfa, NDArray[np.int64], tuple[int, ...]]:
    """Return the automaton that accepts before fillers, what is needed in its other states, and the fillers after each end."""
    assert whole.dfa is not None
    moves, needed = whole.dfa.moves, whole.needed
    mask = 1 << int(whole.alphabet.symbol_at(np.array([ord(filler)]))[0])
    # From the state that accepts back over fillers.
    ends, last = set(), {whole.dfa.accepting.index(True)}
    while last:
        ends |= last
        last = {
            state for state, row in enumerate(moves) if row and all(row.get(to) == mask for to in last | row.keys())
        }
    kept = sorted(reached(0, lambda state: () if state in ends else moves[state]))
    number = {state: new for new, state in enumerate(kept)}
    rows = [{} if state in ends else {number[to]: mask for to, mask in moves[state].items()} for state in kept]
    found = [state in ends for state in kept]
    shorter = tuple(needed[kept][found].tolist())
    return SymbolDfa(rows, found), needed[kept][~np.array(found)] - 1, shorter
