"""The parts of a text that `%regex {...}` allows: any words, characters or chunks that follow each other in it.

By hand, `%regex {"substring_chunks": ["ab", "c"]}` has the empty text, `ab`, `c` and `abc`. Its automaton may begin before any
chunk and end after any: places 0, 1 and 2 are before `ab`, before `c` and at the end.

`substring_words` has runs of letters, digits and `_`, runs of white space, and runs of other characters as chunks.
`substring_chars` has characters.
"""

from __future__ import annotations

import json
import re

from logitkit.errors import ConfigurationError
from logitkit.limits import Limits
from logitkit.patterns.charset import CharSet
from logitkit.patterns.construction import concatenate
from logitkit.patterns.syntax import Characters, Empty, Graph, Node

__all__ = ["chunks_of", "parts_of"]

_KEYS = ("substring_chars", "substring_chunks", "substring_words")
_WORDS = re.compile(r"\w+|\s+|[^\w\s]+")
_SURROGATE = re.compile("[\ud800-\udfff]")

# The cost of a character: each is a state of an automaton, and many states may be alive at once.
_CHARACTER_STEPS = 50


def chunks_of(written: str) -> list[str]:
    """Return the chunks that a `%regex` names.

    Args:
        written: The JSON object after `%regex`.

    Raises:
        ConfigurationError: It is not one of the objects that are allowed.

    Example:
        >>> chunks_of('{"substring_words": "foo bar. baz"}')
        ['foo', ' ', 'bar', '.', ' ', 'baz']
    """
    try:
        value = json.loads(written, parse_int=float)
    except RecursionError:
        raise ConfigurationError("the object after %regex is nested too deeply") from None
    if len(value) != 1 or next(iter(value)) not in _KEYS:
        given = ", ".join(map(repr, value)) or "nothing"
        raise ConfigurationError(f"%regex has {given}; it takes one of {', '.join(_KEYS)}")
    ((key, given),) = value.items()
    is_list = key == "substring_chunks"
    if not (isinstance(given, list) and all(isinstance(c, str) for c in given) if is_list else isinstance(given, str)):
        raise ConfigurationError(f"{key} of %regex is not a {'list of strings' if is_list else 'string'}")
    chunks = given if is_list else [*given] if key == "substring_chars" else _WORDS.findall(given)
    if any(_SURROGATE.search(chunk) for chunk in chunks):
        raise ConfigurationError(f"{key} of %regex has half of a surrogate pair, which no text holds")
    return [chunk for chunk in chunks if chunk]


def parts_of(chunks: list[str], limits: Limits) -> Node:
    """Return the tree of all runs of chunks.

    Args:
        chunks: The chunks; none is empty.
        limits: Bound on their characters.

    Raises:
        PatternTooLarge: There are too many characters.
    """
    characters = sum(map(len, chunks))
    limits.check_states(characters + 2)
    limits.spend(_CHARACTER_STEPS * characters)
    begin = tuple([(Empty(), place) for place in range(1, len(chunks) + 2)])
    moves: list[tuple[tuple[Node, int], ...]] = [begin]
    for place, chunk in enumerate(chunks, 2):
        text = concatenate([Characters(CharSet.single(ord(character))) for character in chunk])
        moves.append(((text, place),))
    return Graph((*moves, ()), (True,) * (len(chunks) + 2))
