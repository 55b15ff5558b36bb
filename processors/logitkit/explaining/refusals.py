"""Why a processor refuses a token."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any

import numpy as np
from numpy.typing import NDArray

from logitkit.constraints.banned_strings import BannedStrings
from logitkit.constraints.intersection import Intersection
from logitkit.constraints.json_schema import JsonSchema
from logitkit.constraints.texts import as_bytes
from logitkit.explaining.expected import expected_words
from logitkit.explaining.findings import Refusal, Source
from logitkit.explaining.open_json import read_json
from logitkit.explaining.sources import Refused, sources_of
from logitkit.patterns.charset import CharSet
from logitkit.penalties.no_repeat_ngram import NoRepeatNGram
from logitkit.protocol.processor import Processor, name_of
from logitkit.runtime.constraint import Constraint
from logitkit.runtime.walk import Walk
from logitkit.vocabulary.vocabulary import Vocabulary

__all__ = ["ban", "language_refusal"]

# As many tokens are listed.
LISTED = 5
# An object or list in a longer text is looked for at this many brackets.
MOST_BRACKETS = 100


def ban(processor: Processor[Any], vocabulary: Vocabulary, legal: NDArray[np.bool_]) -> Refusal:
    """Return the refusal of a token by a processor that is not a language.

    Args:
        processor: The processor.
        vocabulary: The tokens.
        legal: [V] bool, the tokens that the processor allows.
    """
    if isinstance(processor, NoRepeatNGram):
        expected = f"a token that does not repeat {processor.n} tokens of the text"
    else:
        expected = _tokens(vocabulary, np.flatnonzero(legal).tolist())
    return Refusal(name_of(processor), "ban", expected=expected)


def _banned_text(banned: BannedStrings, history: Sequence[int], token: int) -> Refusal:
    """Return the refusal of a token that completes a banned text, at the byte which completes it."""
    written = banned.vocabulary.decode(history)
    whole = written + (banned.vocabulary.tokens[token] or b"")
    texts = [(text, as_bytes(text)) for text in banned.strings]
    if banned.ignore_case:
        whole, texts = whole.lower(), [(text, data.lower()) for text, data in texts]
    ends = [
        (found + len(data) - 1, text)
        for text, data in texts
        if (found := whole.find(data, max(len(written) - len(data) + 1, 0))) >= 0
    ]
    if not ends:
        return Refusal(name_of(banned), "ban")
    byte, text = min(ends, key=lambda end: end[0])
    source = Source("text", text if isinstance(text, str) else text.decode("utf-8", "replace"))
    return Refusal(name_of(banned), "ban", byte, f"a text without {source.text!r}", (source,))


def language_refusal(
    constraint: Constraint, history: Sequence[int], token: int, left: int, following: Sequence[int] = ()
) -> Refusal:
    """Return the refusal of a token by a constraint, without a completion.

    Args:
        constraint: The constraint.
        history: The tokens before, all legal.
        token: The token.
        left: How many tokens are left, or -1 if they are not counted.
        following: The tokens after it.
    """
    name, vocabulary = name_of(constraint), constraint.vocabulary
    is_end = token in vocabulary.eos_ids
    if isinstance(constraint, BannedStrings) and not is_end:
        return _banned_text(constraint, history, token)
    if any(end in history for end in vocabulary.eos_ids):
        return Refusal(name, "end", len(vocabulary.decode(history)), "the end")
    form = constraint.byte_form
    if form is None:
        return _by_tokens(constraint, history, token)
    # The vocabulary has no text for EOS.
    data = vocabulary.tokens[token] or b""
    written, walk = form.viable_prefix(history, data)
    done = len(written) - len(vocabulary.decode(history))
    if data and done == len(data):
        return _viable_but_illegal(constraint, name, history, token, left)
    characters = form.next_characters(walk)
    legal, class_of = walk.legal(), form.automaton.class_of
    special = [s for s, i in vocabulary.special.items() if legal[class_of[i]] and i not in vocabulary.eos_ids]
    expected = expected_words(characters, walk.may_end(), special)
    refusal = Refusal(name, "end" if is_end else "language", len(written), expected)
    rest = vocabulary.special_names.text(takewhile(lambda i: i not in vocabulary.eos_ids, (token, *following)))
    before = vocabulary.special_names.text(history) + rest[:done]
    place = Refused(before, rest[done:], characters, None if is_end else data[done:])
    if isinstance(constraint, Intersection):
        return _by_parts(constraint, refusal, place, history, token)
    too_deep = form.is_too_deep(history, data[: done + 1])
    sources = _depth(constraint) if too_deep else sources_of(constraint, place)
    is_json = too_deep or any(source.kind == "schema" for source in sources)
    return replace(refusal, sources=sources, open_brackets=_open_brackets(written) if is_json else "")


def _depth(constraint: Constraint) -> tuple[Source, ...]:
    """Return the option that limits how deep a text may nest."""
    most = getattr(constraint, "max_depth", constraint.automaton.nesting.brackets)
    return (Source("text", f"max_depth={most}"),)


def _by_parts(both: Intersection, refusal: Refusal, place: Refused, history: Sequence[int], token: int) -> Refusal:
    """Name the parts of an intersection that refuse a token, and take their sources."""
    parts = [part for part in both.parts if _refuses(part, history, token, refusal.byte or 0)] or list(both.parts)
    found: list[Source] = []
    for part in parts:
        if isinstance(part, BannedStrings) and token not in part.vocabulary.eos_ids:
            found += _banned_text(part, history, token).sources
        else:
            found += sources_of(part, place)
    sources = dict.fromkeys(found)
    return replace(
        refusal,
        processor=" and ".join(dict.fromkeys(map(name_of, parts))),
        sources=tuple(sources),
        open_brackets=_open_brackets(place.written) if any(isinstance(part, JsonSchema) for part in both.parts) else "",
    )


def _refuses(part: Constraint, history: Sequence[int], token: int, byte: int) -> bool:
    """Whether a part of an intersection refuses a token at a byte."""
    form = part.byte_form
    if form is None:
        return not Walk.start(part.flat_automaton).after(*history, token).is_live
    if token in part.vocabulary.eos_ids:
        return not form.start().after(*history).may_end()
    return len(form.viable_prefix(history, part.vocabulary.tokens[token] or b"")[0]) <= byte


def _viable_but_illegal(constraint: Constraint, name: str, history: Sequence[int], token: int, left: int) -> Refusal:
    walk = Walk.start(constraint.automaton).after(*history)
    if left >= 0 and walk.allows(token):
        return Refusal(name, "budget", expected=f"a text that ends within {left} more token{'s' * (left != 1)}")
    return Refusal(name, "vocabulary", expected=_legal_tokens(constraint, walk))


def _by_tokens(constraint: Constraint, history: Sequence[int], token: int) -> Refusal:
    """Return the refusal by a constraint over token ids."""
    cause = "end" if token in constraint.vocabulary.eos_ids else "language"
    walk = Walk.start(constraint.automaton).after(*history)
    byte = len(constraint.vocabulary.decode(history))
    return Refusal(name_of(constraint), cause, byte, _legal_tokens(constraint, walk))  # type: ignore[arg-type]


def _legal_tokens(constraint: Constraint, walk: Walk) -> str:
    legal = walk.legal_ids(np.arange(constraint.vocabulary.size))
    return _tokens(constraint.vocabulary, legal.tolist())


def _tokens(vocabulary: Vocabulary, ids: list[int]) -> str:
    """Return a few tokens in words, and nothing for more of them."""
    ends = [token for token in ids if token in vocabulary.eos_ids]
    others = [token for token in ids if token not in ends]
    if len(others) > LISTED:
        return ""
    texts = [vocabulary.special_names.text([i]).decode("utf-8", "replace") or str(i) for i in others]
    words = expected_words(CharSet(), bool(ends), texts)
    return f"the token {words}" if len(others) == 1 and not ends else words


def _open_brackets(written: bytes) -> str:
    """Return the open brackets of the JSON value at the end of a text, outermost first."""
    begins = [at for at, byte in enumerate(written) if byte in b"{["][:MOST_BRACKETS]
    for begin in [0, *begins]:
        node, length = read_json(written[begin:])
        if node is not None and not node.closed and begin + length == len(written):
            return node.open_brackets
    return ""
