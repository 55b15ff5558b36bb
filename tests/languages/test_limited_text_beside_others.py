"""Text with max_tokens where other text may stand too: refused, or every reading counts by itself."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product

import pytest
import torch

import logitkit as lk
from logitkit.errors import ConfigurationError
from logitkit.languages import Language, any_text, dispatch, either, optional, regex, repeat, sequence, special, tag

TOKENS = [b"a", b"b", b"c", b"ab", b"ba", None, None]
END, EOS = 5, 6
VOCABULARY = lk.Vocabulary(TOKENS, eos_ids=[EOS], special={"<end>": END})
OVERLAP = "other text begin at the same point"

# The language before the limited text, its pattern, and whether both may go on in one place.
BEFORE: list[tuple[Language | str, str, bool]] = [
    ("a", "a", False),
    ("ab", "ab", False),
    (any_text(until="b"), "[^b]*b", False),
    (regex("b|c"), "b|c", False),
    (optional("a"), "a?", True),
    (optional("ab"), "(ab)?", True),
    (regex("a*"), "a*", True),
    (regex("a|ab"), "ab?", True),
    (any_text(), ".*", True),
    (dispatch({"b": tag("b", "c", "b")}), "([^b]|bcb)*", True),
]


def readings(text: str, pattern: str, at: int) -> Iterator[int]:
    """Yield where a text by a pattern may end that begins in some place."""
    return (end for end in range(at, len(text) + 1) if re.fullmatch(pattern, text[at:end]))


def in_time(tokens: tuple[int, ...], before: str, marker: str, most: int) -> bool:
    """Whether tokens are text by a pattern, then text up to a marker, with at most some tokens before that of its end."""
    token_of = [n for n, token in enumerate(tokens) for _ in TOKENS[token] or b""]
    text = b"".join(TOKENS[token] or b"" for token in tokens).decode()
    for begin in readings(text, before, 0):
        if text[begin:].partition(marker)[1:] != (marker, ""):
            continue
        first = token_of[begin] + (begin > 0 and token_of[begin - 1] == token_of[begin])
        if token_of[-1] - first <= most:
            return True
    return False


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("marker", ["b", "bb", "ab"])
@pytest.mark.parametrize(("before", "pattern", "overlaps"), BEFORE)
def test_masks_after_other_text(before: Language | str, pattern: str, overlaps: bool, marker: str, most: int) -> None:
    language = sequence(before, any_text(until=marker, max_tokens=most))
    if overlaps:
        with pytest.raises(ConfigurationError, match=OVERLAP):
            language.constraint(VOCABULARY)
        return
    constraint = language.constraint(VOCABULARY)
    used, longest = range(END), 6
    accepted = {t for n in range(longest + 1) for t in product(used, repeat=n) if in_time(t, pattern, marker, most)}
    begun = {t[:n] for t in accepted for n in range(len(t) + 1)}
    context = lk.Context.of([[]], vocabulary_size=len(TOKENS))
    for tokens in [t for t in begun if len(t) < longest - 3]:
        state = constraint.init_state(context)
        state = constraint.advance(state, torch.tensor([tokens])) if tokens else state
        mask = constraint.process_logits(state, torch.zeros(1, len(TOKENS)), context)[1][0]
        expected = {t for t in used if (*tokens, t) in begun} | ({EOS} if tokens in accepted else set())
        assert set(torch.nonzero(mask == 0).ravel().tolist()) & {*used, EOS} == expected, tokens


LIMITED = any_text(max_tokens=3)
UP_TO_B = any_text(until="b", max_tokens=3)
REFUSED: dict[str, Callable[[], Language]] = {
    "other text ends in the middle": lambda: either(sequence(UP_TO_B, "c"), regex("a*")),
    "a character follows": lambda: sequence(LIMITED, "c"),
    "a character of two bytes follows": lambda: sequence(LIMITED, "é"),
    "a token follows that it contains": lambda: sequence(LIMITED, special("<end>")),
    "an option follows": lambda: sequence(LIMITED, optional("a")),
    "any text follows": lambda: sequence(LIMITED, any_text()),
    "the same text follows": lambda: sequence(LIMITED, LIMITED),
    "the same text without a limit": lambda: either(any_text(until="b"), UP_TO_B),
    "the same text with another limit": lambda: either(any_text(until="b", max_tokens=5), UP_TO_B),
    "the same text, after the same": lambda: either(sequence("x", any_text()), sequence("x", LIMITED)),
    "an option between two": lambda: sequence(UP_TO_B, regex("a?"), UP_TO_B),
    "thinking that may be left out": lambda: sequence(optional(tag("<t>", any_text(), "</t>")), LIMITED),
    "repeated text before": lambda: sequence(repeat(any_text(until="b")), LIMITED),
    "a text that it contains": lambda: either("aab", any_text(until="b", max_tokens=1)),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_text_in_the_same_place_is_refused(name: str) -> None:
    with pytest.raises(ConfigurationError, match=OVERLAP):
        REFUSED[name]().constraint(VOCABULARY)
