"""Neighbouring constraints of which one closes its text within a number of tokens: no text gets stuck, or too long."""

from __future__ import annotations

import itertools
import json
import re
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError
from tests.examples import examples

TOKENS = (b'"', b"a", b"b", b'"a', b"ab", b'b"', b"1", b"}", b'{"a":')
VOCABULARY = lk.Vocabulary([*TOKENS, None], eos_ids=[len(TOKENS)])
EOS = len(TOKENS)
WORDS = ["".join(letters) for length in range(4) for letters in itertools.product("ab", repeat=length)]


def legal(processor: lk.Chain, tokens: list[int], room: int | None = None) -> list[int]:
    """Return the legal tokens after some others, in a row that may have `room` new tokens."""
    context = lk.Context.of([[]], vocabulary_size=VOCABULARY.size, max_length=room)
    state = processor.init_state(context)
    if tokens:
        state = processor.advance(state, torch.tensor([tokens], dtype=torch.int64))
    logits = processor.process_logits(state, torch.zeros(1, VOCABULARY.size), context)[1]
    return [int(token) for token in (logits[0] > -torch.inf).nonzero()]


def tokenizations(text: bytes) -> list[list[int]]:
    """Return all ways to spell a text, by brute force."""
    if not text:
        return [[]]
    return [
        [token, *rest]
        for token, piece in enumerate(TOKENS)
        if text.startswith(piece)
        for rest in tokenizations(text[len(piece) :])
    ]


@settings(max_examples=examples(150))
@given(
    words=st.sets(st.sampled_from(WORDS), min_size=1, max_size=5),
    banned=st.sets(st.sampled_from([word for word in WORDS if word]), min_size=1, max_size=3),
    room=st.integers(1, 6),
    in_context=st.booleans(),
)
def test_masks_agree_with_all_tokenizations_of_all_texts(
    words: set[str], banned: set[str], room: int, in_context: bool
) -> None:
    texts = [json.dumps(word) for word in sorted(words) if not any(ban in json.dumps(word) for ban in banned)]
    rows = [row for text in texts for row in tokenizations(text.encode())]
    schema = {"enum": sorted(words)}
    bans = lk.BannedStrings(sorted(banned), VOCABULARY)
    shortest = min(map(len, rows), default=None)
    try:
        made = lk.chain(bans, lk.JsonSchema(schema, VOCABULARY, closing=True if in_context else room))
    except ConfigurationError:
        assert shortest is None or (shortest > room and not in_context)
        return
    assert shortest is not None
    assert [type(part) for part in made.processors] == [lk.Intersection]
    # Without enough room for any text, the row writes a shortest one.
    most = max(room, shortest)
    fitting = [row for row in rows if len(row) <= most]
    for begun in {tuple(row[:n]) for row in fitting for n in range(len(row) + 1)}:
        going_on = {
            row[len(begun)] if len(row) > len(begun) else EOS for row in fitting if tuple(row[: len(begun)]) == begun
        }
        assert legal(made, list(begun), room if in_context else None) == sorted(going_on), (words, banned, begun)


def test_a_banned_name_leaves_the_other_one() -> None:
    tokens = [bytes([byte]) for byte in range(128)]
    vocabulary = lk.Vocabulary([*tokens, b"Ann", None], eos_ids=[129])
    bans = lk.BannedStrings(["Anna"], vocabulary)
    names = lk.JsonSchema({"enum": ["Anna", "Andrea"]}, vocabulary, closing=20)
    made = lk.chain(bans, names)
    context = lk.Context.of([[]], vocabulary_size=130)
    text = torch.tensor([[ord(letter) for letter in '"An']])
    state = made.advance(made.init_state(context), text)
    left = made.process_logits(state, torch.zeros(1, 130), context)[1][0]
    assert (left > -torch.inf).nonzero()[:, 0].tolist() == [ord("d")]


@pytest.mark.parametrize("closing", [False, True, 20])
def test_bans_of_what_every_text_needs_are_refused(closing: bool | int) -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    schema["additionalProperties"] = False
    with pytest.raises(ConfigurationError, match="no text is allowed by all constraints of the chain"):
        lk.chain(lk.BannedStrings(["}"], VOCABULARY), lk.JsonSchema(schema, VOCABULARY, closing=closing))


def test_what_both_allow_must_fit() -> None:
    schema = lk.JsonSchema({"enum": ["a", "ab", "abab"]}, VOCABULARY, closing=3)
    lk.chain(schema, lk.Regex('"a.*', VOCABULARY))
    # "abab" takes four tokens: `"`, ab, a and b`"`.
    with pytest.raises(ConfigurationError, match=r"closing is 3, .* takes 4 tokens; give at least 4"):
        lk.chain(schema, lk.Regex('"abab"', VOCABULARY))


def test_the_least_of_several_limits_counts() -> None:
    either = [lk.JsonSchema({"enum": ["a", "abab"]}, VOCABULARY, closing=closing) for closing in (4, 3)]
    made = lk.chain(*either)
    # "abab" takes four tokens, so it is not begun where only three are left.
    assert 4 in legal(lk.chain(either[0], either[0]), [0])
    assert legal(made, [0]) == [1]


def test_a_limit_of_the_context_and_one_of_its_own() -> None:
    both = lk.chain(
        lk.JsonSchema({"enum": ["a", "abab"]}, VOCABULARY, closing=True),
        lk.JsonSchema({"enum": ["a", "abab", "b"]}, VOCABULARY, closing=4),
    )
    assert 4 in legal(both, [0], None)
    assert 4 in legal(both, [0], 9)
    assert 4 not in legal(both, [0], 3)
    short = lk.JsonSchema({"enum": ["a", "abab"]}, VOCABULARY, closing=3)
    assert 4 not in legal(lk.chain(both, short), [0], 9)


def test_its_configuration_names_the_parts() -> None:
    made = lk.chain(lk.BannedStrings(["b"], VOCABULARY), lk.JsonSchema({"enum": ["a", "b"]}, VOCABULARY, closing=9))
    config = lk.to_config(made)
    assert config == {"banned_strings": ["b"], "json_schema": {"schema": {"enum": ["a", "b"]}, "closing": 9}}
    assert lk.from_config(config, VOCABULARY) == made


def test_schemas_that_nest_without_limit_stay_apart() -> None:
    vocabulary = lk.Vocabulary([*[bytes([byte]) for byte in range(128)], None], eos_ids=[128])
    made = lk.chain(lk.BannedStrings(["x"], vocabulary), lk.JsonSchema({}, vocabulary, closing=20))
    assert [type(part) for part in made.processors] == [lk.BannedStrings, lk.JsonSchema]


def test_a_real_vocabulary_closes_in_time(tekken: lk.Vocabulary) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
        "required": ["name", "age"],
        "additionalProperties": False,
    }
    bans = ["o", "10", '":']
    generator = torch.Generator().manual_seed(3)
    made = lk.chain(lk.BannedStrings(bans[:2], tekken), lk.JsonSchema(schema, tekken, closing=24))
    context = lk.Context.of([[]], vocabulary_size=tekken.size)
    for _ in range(10):
        state, text = made.init_state(context), b""
        for step in range(25):
            logits = made.process_logits(state, torch.zeros(1, tekken.size), context)[1]
            token = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
            if int(token) in tekken.eos_ids:
                break
            assert step < 24
            text += tekken.tokens[int(token)] or b""
            state = made.advance(state, token)
        value = json.loads(text)
        assert set(value) == {"name", "age"}
        assert not re.search("o|10", text.decode())
    with pytest.raises(ConfigurationError, match="no text is allowed"):
        lk.chain(lk.BannedStrings(bans, tekken), lk.JsonSchema(schema, tekken, closing=24))
