r"""Raw text between two markers, followed as one fragment, which counts characters or lines where their number is limited.

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

That one bound is right only if a text which is too short can always go on to be longer. This holds if no text is too short. It
also holds if any text is allowed, and the lengths leave room for the characters of the end: they are then text, up to the last
one, which completes the marker.

JSON Schema limits lines with a pattern: `^[^\n]*(\n[^\n]*){0,99}$` allows 100 of them. However a pattern is written, its minimal
automaton is then a chain, in which a line feed leads to the next state and any other character of its to the same one. So the
fragment is that of the text without the limit, and counts line feeds, the one before the closing tag included. The same bound
holds: a text may always go on without line feeds to its end. If characters are counted as well, lines have states.

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
from logitkit.compiler.characters.subset import SymbolDfa
from logitkit.compiler.text_language import TextLanguage
from logitkit.json_schema.search import ANY_LENGTH
from logitkit.json_schema.string_set import COUNTED_FROM, StringSet
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Characters

__all__ = ["text_fragment"]

# The bytes of a character after its first, and more characters than are counted.
INSIDE, MOST = 3, 2**30
LINE_FEED = ord("\n")

# Fewer lines have states, about 30 each, which takes no longer: constraints without counts can be combined with any others.
COUNTED_LINES_FROM = 64

# The cost of writing a set, in steps.
STEPS_ANY, STEPS_A_STATE = 500, 10

# The sets that are kept for all vocabularies.
_known: BoundedCache[Hashable, _Uncounted | None] = BoundedCache(8 * 2**20)
_lock = Lock()


def text_fragment(
    strings: StringSet, without: TextLanguage, end: str, longest: int, closing: bool
) -> StringFragment | None:
    """Return the fragment of some strings and what follows them, or None if that is not possible, or would not pay.

    Args:
        strings: The strings.
        without: The texts in which the marker does not occur, which is `end` without white space around it.
        end: The text after the strings.
        longest: The most characters of a token; 0 if fragments of raw text are not allowed.
        closing: Whether a text that has begun must be completed within a number of tokens.
    """
    counts = strings.lengths != ANY_LENGTH and strings.counts(longest, closing)
    limited = None if counts else _limited_lines(strings)
    if not longest or not (counts or limited or strings.is_everything) or not end.isascii():
        return None
    texts = limited.texts if limited else strings.texts
    key = texts.key, without.key, end
    strings.limits.spend(STEPS_ANY)
    try:
        found = _known[key]
    except KeyError:
        with outside_budget():
            found = _fragment(texts & without, end)
        with _lock:
            _known.keep(key, found, 0 if found is None else 2 * found.fragment.step.nbytes)
    if found is None:
        return None
    if limited:
        strings.limits.spend(STEPS_A_STATE * found.fragment.states)
        return counting_byte(found.fragment, LINE_FEED, limited.line_feeds + end[:-1].count("\n"))
    if not counts:
        return found.fragment
    least, most = strings.lengths
    if most is not None and found.shortest > most:
        return None
    before = len(end) - 1
    # White space after the marker comes too late to be text after all.
    room = strings.texts.is_everything and not end[-1].isspace() and (most is None or least + before <= most + 1)
    # How many tokens are needed to the end must not depend on the count.
    if least > found.shortest and (closing or not room):
        return None
    strings.limits.spend(STEPS_A_STATE * found.fragment.states)
    return counting(found.fragment, found.needed, INSIDE, ((least + before, MOST if most is None else most + before),))


class _LimitedLines(NamedTuple):
    """The texts of a set that have few line feeds.

    Args:
        texts: The texts, with any number of line feeds.
        line_feeds: The greatest number of line feeds.
    """

    texts: TextLanguage
    line_feeds: int


def _limited_lines(strings: StringSet) -> _LimitedLines | None:
    """Return strings of which only the number of lines is limited, and maybe a small least length; None if others are."""
    texts, (least, most) = strings.texts, strings.lengths
    if most is not None or least >= COUNTED_FROM or texts.listed is not None or texts.dfa is None:
        return None
    moves, last = texts.dfa.moves, len(texts.dfa.moves) - 1
    if last + 1 < COUNTED_LINES_FROM or not all(texts.dfa.accepting):
        return None
    line_feed, others = moves[0].get(1), moves[last].get(last)
    if line_feed is None or others is None or texts.charset(line_feed) != CharSet.single(LINE_FEED):
        return None
    if moves != [*({state: others, state + 1: line_feed} for state in range(last)), {last: others}]:
        return None
    unlimited = TextLanguage(SymbolDfa([{0: others | line_feed}], [True]), texts.alphabet, texts.limits).compacted()
    return _LimitedLines(StringSet(unlimited, strings.lengths).language, last)


class _Uncounted(NamedTuple):
    """A fragment that does not count yet.

    Args:
        fragment: The fragment.
        needed: For each state in which a character may begin, the least number of characters up to the last one of the end.
        shortest: The length of the shortest text.
    """

    fragment: StringFragment
    needed: NDArray[np.int64]
    shortest: int


def _fragment(texts: TextLanguage, end: str) -> _Uncounted | None:
    """Return the fragment of some texts with their end, or None if there are none."""
    if texts.is_empty:
        return None
    tail = [Characters(CharSet.single(ord(character))) for character in end]
    whole = TextLanguage.of_tree(concatenate([texts.machine(), *tail]), texts.limits)
    assert whole.dfa is not None
    # Nothing goes on after the end, so one state accepts.
    marks = [int(accepts) for accepts in whole.dfa.accepting]
    fragment = StringFragment.of(to_bytes(whole.dfa, whole.alphabet, texts.limits), marks)
    needed = whole.needed[~np.array(whole.dfa.accepting)] - 1
    return _Uncounted(replace(fragment, is_text=True), needed, int(texts.needed[0]))
