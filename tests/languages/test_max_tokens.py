"""Free text of a limited number of tokens, against all sequences of a few tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import product

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, PatternTooLarge
from logitkit.languages import (
    Language,
    LanguageConstraint,
    any_text,
    either,
    json_schema,
    regex,
    repeat,
    sequence,
    special,
)
from logitkit.languages.free_text import TooFewTokens
from logitkit.limits import Limits
from tests import vocabularies
from tests.processors.both_paths import tensors_only

TOKENS = [b"a", b"b", b"c", b"ab", b"bc", b"bab", None, None, None]
NAMED, OTHER, EOS = 6, 7, 8
VOCABULARY = lk.Vocabulary(TOKENS, eos_ids=[EOS], special={"<end>": NAMED})


def belongs(tokens: tuple[int, ...], most: int, marker: str, after: str) -> bool:
    """Whether tokens are text up to the marker, of at most `most` tokens before the one that completes it, and what follows."""
    text = ""
    for place, token in enumerate(tokens):
        if token == NAMED:
            # The special token adds nothing to the text.
            if marker == "<end>":
                return place <= most and rest(tokens[place + 1 :], "", after)
            continue
        text += (TOKENS[token] or b"").decode()
        if marker in text:
            return place <= most and rest(tokens[place + 1 :], text.partition(marker)[2], after)
    return False


def rest(tokens: tuple[int, ...], text: str, after: str) -> bool:
    if {NAMED, OTHER} & set(tokens):
        return False
    return re.fullmatch(after, text + b"".join(TOKENS[t] or b"" for t in tokens).decode()) is not None


def legal(constraint: LanguageConstraint, tokens: tuple[int, ...]) -> set[int]:
    context = lk.Context.of([[]], vocabulary_size=len(TOKENS))
    state = constraint.init_state(context)
    if tokens:
        state = constraint.advance(state, torch.tensor([tokens]))
    zeros = torch.zeros(1, len(TOKENS))
    mask = constraint.process_logits(state, zeros.clone(), context)[1]
    assert torch.equal(mask, tensors_only(constraint, state, zeros))
    return set(torch.nonzero(mask[0] == 0).ravel().tolist())


@pytest.mark.parametrize("closing", [False, 20])
@pytest.mark.parametrize("after", ["c?", ""])
@pytest.mark.parametrize(
    ("most", "marker"), [*[(n, marker) for n in (1, 2) for marker in ("b", "ab", "bb", "abab", "<end>")], (3, "ab")]
)
def test_masks_are_those_of_all_sequences(most: int, marker: str, after: str, closing: int) -> None:
    text = any_text(until=special("<end>") if marker == "<end>" else marker, max_tokens=most)
    constraint = (sequence(text, regex(after)) if after else text).constraint(VOCABULARY, closing=closing)
    longest = most + 3
    accepted = {t for n in range(longest + 1) for t in product(range(EOS), repeat=n) if belongs(t, most, marker, after)}
    begun = {t[:n] for t in accepted for n in range(len(t) + 1)}
    for n in range(most + 1):
        for tokens in product(range(EOS), repeat=n):
            if tokens in begun:
                expected = {t for t in range(EOS) if (*tokens, t) in begun} | ({EOS} if tokens in accepted else set())
                assert legal(constraint, tokens) == expected, tokens


@pytest.mark.parametrize("most", [1, 2])
@pytest.mark.parametrize("marker", ["é", "aé", "éa", "éé", "。", "a。"])
def test_parts_of_characters_of_a_marker_are_counted(marker: str, most: int) -> None:
    tokens = sorted({*(bytes([byte]) for byte in "aéè。々".encode()), "é".encode()})
    vocabulary = lk.Vocabulary([*tokens, None], eos_ids=[len(tokens)])
    language = any_text(until=marker, max_tokens=most)
    longest = most + 1
    every = [ids for n in range(longest + 1) for ids in product(range(len(tokens)), repeat=n)]
    accepted = {ids for ids in every if ends_with_the_first(b"".join(tokens[t] for t in ids), marker)}
    if not accepted:
        needed = len(marker.encode()) - marker.count("é") - 1
        with pytest.raises(ConfigurationError, match=f"max_tokens is {most}, .*; give at least {needed},"):
            language.constraint(vocabulary)
        return
    constraint = language.constraint(vocabulary)
    for ids in product(range(len(tokens)), repeat=longest):
        state = constraint.advance(constraint.init_state(lk.Context.of([[]], len(tokens) + 1)), torch.tensor([ids]))
        assert bool(constraint.is_dead(state)) == (ids not in accepted), ids


def ends_with_the_first(text: bytes, marker: str) -> bool:
    """Whether a text is valid, and ends with the first occurrence of a marker in it."""
    try:
        return text.decode().find(marker) == len(text.decode()) - len(marker) and marker in text.decode()
    except UnicodeDecodeError:
        return False


def written(tokens: tuple[int, ...]) -> str:
    """Return the text of tokens, without special tokens, which change nothing in free text."""
    return "".join((TOKENS[token] or b"").decode() for token in tokens)


END = special("<end>")
WITHOUT_MARKER: list[tuple[Language, Callable[[tuple[int, ...]], bool]]] = [
    (any_text(max_tokens=2), lambda tokens: len(tokens) <= 2),
    (
        any_text(exclude=["bb", "abc"], max_tokens=3),
        lambda tokens: len(tokens) <= 3 and not re.search("bb|abc", written(tokens)),
    ),
    (
        sequence(END, any_text(exclude=END, max_tokens=2), END),
        lambda tokens: (
            2 <= len(tokens) <= 4 and [place for place, t in enumerate(tokens) if t == NAMED] == [0, len(tokens) - 1]
        ),
    ),
    (
        either(sequence(END, any_text(max_tokens=1, exclude=END)), END),
        lambda tokens: 1 <= len(tokens) <= 2 and tokens[0] == NAMED and tokens[1:] != (NAMED,),
    ),
]


@pytest.mark.parametrize("closing", [False, 20])
@pytest.mark.parametrize("number", range(len(WITHOUT_MARKER)))
def test_masks_without_a_marker_are_those_of_all_sequences(number: int, closing: int) -> None:
    language, judge = WITHOUT_MARKER[number]
    constraint = language.constraint(VOCABULARY, closing=closing)
    accepted = {t for n in range(5) for t in product(range(EOS), repeat=n) if judge(t)}
    begun = {t[:n] for t in accepted for n in range(len(t) + 1)}
    for tokens in begun:
        expected = {t for t in range(EOS) if (*tokens, t) in begun} | ({EOS} if tokens in accepted else set())
        assert legal(constraint, tokens) == expected, tokens


def test_the_count_starts_again_with_each_text() -> None:
    constraint = repeat(any_text(until="b", max_tokens=2)).constraint(VOCABULARY)
    # `bab` ends one text, and begins and ends another one; `bc` ends one and begins one that has no whole token yet.
    assert legal(constraint, (0, 0)) == {1, 3, 4, 5}
    assert legal(constraint, (0, 0, 1)) == set(range(EOS + 1))
    assert legal(constraint, (0, 0, 4)) == set(range(EOS))
    assert legal(constraint, (0, 0, 4, 0, 0)) == {1, 3, 4, 5}
    assert legal(constraint, (5,) * 9) == set(range(EOS + 1))


def are_two_texts(tokens: tuple[int, ...], most: int, marker: str, after: str) -> bool:
    """Whether tokens are two texts up to the marker, each of at most `most` tokens wholly in it before that of its end."""
    if marker == "<end>":
        first, second = ([place for place, token in enumerate(tokens) if token == NAMED] + [99, 99])[:2]
        return first <= most and second - first - 1 <= most and rest(tokens[second + 1 :], "", after)
    if {NAMED, OTHER} & set(tokens):
        return False
    characters = [(c, place, i) for place, t in enumerate(tokens) for i, c in enumerate((TOKENS[t] or b"").decode())]
    at = 0
    for _ in range(2):
        end = next((i for i in range(at, len(characters)) if characters[i][0] == "b"), None)
        if end is None or characters[end][1] - (characters[at][1] + (characters[at][2] > 0)) > most:
            return False
        at = end + 1
    return re.fullmatch(after, "".join(c for c, _, _ in characters[at:])) is not None


@pytest.mark.parametrize("after", ["c?", ""])
@pytest.mark.parametrize(("most", "marker"), [(1, "b"), (2, "b"), (1, "<end>")])
def test_masks_of_two_texts_are_those_of_all_sequences(most: int, marker: str, after: str) -> None:
    texts = repeat(any_text(until=END if marker == "<end>" else marker, max_tokens=most), 2, 2)
    constraint = (sequence(texts, regex(after)) if after else texts).constraint(VOCABULARY)
    # Special tokens that end no text would make too many sequences.
    used = [token for token in range(EOS) if marker == "<end>" or token not in {NAMED, OTHER}]
    longest = 2 * most + 3
    accepted = {t for n in range(longest + 1) for t in product(used, repeat=n) if are_two_texts(t, most, marker, after)}
    begun = {t[:n] for t in accepted for n in range(len(t) + 1)}
    for tokens in [t for t in begun if len(t) <= 2 * most + 1]:
        expected = {t for t in used if (*tokens, t) in begun} | ({EOS} if tokens in accepted else set())
        assert legal(constraint, tokens) & {*used, EOS} == expected, tokens


def test_a_marker_that_no_tokens_spell_in_time() -> None:
    says = "max_tokens is 3, but the marker 'cacac' takes at least 5 tokens, of which all but the last count; give at least 4, or"
    with pytest.raises(TooFewTokens, match=f"^{says}"):
        any_text(until="cacac", max_tokens=3).constraint(VOCABULARY)


@settings(deadline=None)
@given(st.sets(st.text("ab", min_size=2, max_size=3), max_size=5), st.text("ab", min_size=3, max_size=7))
def test_the_error_says_how_many_tokens_a_marker_takes(more: set[str], marker: str) -> None:
    tokens = [b"a", b"b", *(text.encode() for text in sorted(more))]
    vocabulary = lk.Vocabulary([*tokens, None], eos_ids=[len(tokens)])

    def refused(most: int) -> TooFewTokens | None:
        # The text after the marker may begin in its last token.
        language = sequence(any_text(until=[marker, marker + "a"], max_tokens=most), any_text())
        try:
            language.constraint(vocabulary)
        except TooFewTokens as error:
            return error
        return None

    errors = [refused(most) for most in range(1, len(marker))]
    # The longest limit is always enough, and all shorter limits than the one that the errors name are too short.
    assert errors[-1] is None
    enough = errors.index(None) + 1
    assert errors[enough - 1 :] == [None] * (len(marker) - enough)
    for most, error in enumerate(errors[: enough - 1], 1):
        assert error is not None
        assert (error.marker, error.most, error.needed) == (marker, most, enough)


def test_a_special_token_takes_one_place_in_a_marker() -> None:
    limited = any_text(until="ccc<end>ccc", max_tokens=3)
    with pytest.raises(TooFewTokens, match="takes at least 7 tokens"):
        limited.constraint(VOCABULARY)
    replace(limited, max_tokens=6).constraint(VOCABULARY)


@pytest.mark.parametrize(
    "language",
    [
        sequence(any_text(until="b", max_tokens=1), "é"),
        any_text(until="é", max_tokens=1),
        sequence(any_text(until="cacac", max_tokens=4), "é"),
        sequence(any_text(until=["cacac", END], max_tokens=1), "é"),
    ],
)
def test_limits_that_are_high_enough_are_not_blamed(language: Language) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^the tokens of the vocabulary spell no text that the language matches$"
    ):
        language.constraint(VOCABULARY)


def test_the_search_for_the_reason_is_limited() -> None:
    vocabulary = lk.Vocabulary([*TOKENS, *(b"z" * n for n in range(1, 400))], eos_ids=[EOS], special={"<end>": NAMED})
    limited = any_text(until=["ccccc" + "".join(end) for end in product("abc", repeat=3)], max_tokens=3)
    with pytest.raises(TooFewTokens, match="'cccccbab' takes at least 6 tokens"):
        limited.constraint(vocabulary)
    # It compiles within this limit, but to look at all tokens for each of 27 markers takes more.
    with pytest.raises(ConfigurationError, match=r"^the tokens of the vocabulary spell no text"):
        limited.constraint(vocabulary, limits=Limits(work=50_000))


@pytest.mark.parametrize("limited", [any_text(until="b", exclude="b", max_tokens=2), any_text(until="b", max_tokens=2)])
def test_a_language_without_a_text_is_refused(limited: Language) -> None:
    with pytest.raises(ConfigurationError, match="matches no text at all"):
        sequence(limited, regex(r"[^\s\S]")).constraint(VOCABULARY)


def test_limits_are_not_lost_in_other_constraints() -> None:
    limited = any_text(until="b", max_tokens=2).constraint(VOCABULARY)
    for combined in (
        lambda: lk.then(limited, None, "c"),
        lambda: lk.then(None, limited, "c"),
        lambda: lk.ForcedPrefix("a", VOCABULARY, then=limited),
    ):
        with pytest.raises(ConfigurationError, match="has text with max_tokens"):
            combined()


def test_wrong_arguments() -> None:
    with pytest.raises(ConfigurationError, match="integers from 1"):
        any_text(until="b", max_tokens=0)


def test_budgets_of_thousands_of_tokens() -> None:
    vocabulary = vocabularies.sentencepiece_32k()
    schema = json_schema({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]})
    constraint = sequence(any_text(until="</think>", max_tokens=4000), schema).constraint(vocabulary)
    word = vocabulary.tokens.index(b"the")
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    state = constraint.advance(constraint.init_state(context), torch.full((1, 3990), word))
    written = b""
    while not bool(constraint.is_finished(state)) and len(written) < 90:
        mask = constraint.process_logits(state, torch.zeros(1, vocabulary.size), context)[1][0]
        assert not bool(constraint.is_dead(state))
        # A model that would go on for ever.
        mask[word] += 1
        token = int(mask.argmax())
        written += vocabulary.tokens[token] or b""
        state = constraint.advance(state, torch.tensor([token]))
    assert b"</think>{" in written
    with pytest.raises(PatternTooLarge, match="lower max_tokens"):
        sequence(any_text(until="</think>", max_tokens=10**9), schema).constraint(vocabulary)
