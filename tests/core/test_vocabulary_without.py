"""`Vocabulary.without`: constraints on it never use some tokens, never need them, and share batches with those of the whole."""

from __future__ import annotations

import itertools
import json
import pickle
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import logitkit as lk
from logitkit.errors import ConfigurationError, LogitkitError, VocabularyError
from logitkit.languages import any_token, literal, regex, repeat, sequence, special
from logitkit.runtime.automaton_files import AutomatonFiles
from logitkit.runtime.shared import shared_by
from tests.examples import examples

TOKENS = (b"a", b"b", b"c", b"ab", b"ba", b"bc", b"aab")
VOCABULARY = lk.Vocabulary([*TOKENS, None, None], eos_ids=[7], special={"</s>": 7, "<t>": 8})
PATTERNS = ["a*b", "(ab)*c", "[abc]{2,4}", "a(b|c)a?", "(ba|ab)+", "a{3}b?"]
TEXTS = ["".join(letters) for length in range(9) for letters in itertools.product("abc", repeat=length)]

BYTES = lk.Vocabulary(
    [*(bytes([byte]) for byte in range(128)), b'"}', b"}}", b"]}", b"[[", b"]]", b"1]", b'{"', None], eos_ids=[135]
)
QUOTED_END, TWO_ENDS, NESTED_END = 128, 129, 130


def legal(processor: lk.Processor[Any], tokens: list[int], vocabulary: lk.Vocabulary = VOCABULARY) -> set[int]:
    """Return the legal tokens after some others."""
    context = lk.Context.of([[]], vocabulary_size=vocabulary.size)
    state = processor.init_state(context)
    if tokens:
        state = processor.advance(state, torch.tensor([tokens]))
    row = processor.process_logits(state, torch.zeros(1, vocabulary.size), context)[1][0]
    return set((row > -torch.inf).nonzero()[:, 0].tolist())


@settings(max_examples=examples(150))
@given(st.sampled_from(PATTERNS), st.sets(st.sampled_from(range(7)), max_size=5))
def test_masks_agree_with_all_spellings(pattern: str, left_out: set[int]) -> None:
    allowed = {text for text in TEXTS if re.fullmatch(pattern, text)}
    usable = [token for token in range(7) if token not in left_out]
    # After a short beginning and any token, some text of at most eight letters remains, so only those are compared.
    expected: dict[tuple[int, ...], set[int]] = {}
    todo: list[tuple[tuple[int, ...], str]] = [((), "")]
    while todo:
        row, text = todo.pop()
        if text in allowed:
            for cut in range(len(row)):
                expected.setdefault(row[:cut], set()).add(row[cut])
            expected.setdefault(row, set()).add(7)
        todo += [
            ((*row, t), longer)
            for t in usable
            if len(longer := text + TOKENS[t].decode()) <= 8 and any(one.startswith(longer) for one in allowed)
        ]
    try:
        made = lk.Regex(pattern, VOCABULARY.without(left_out))
    except ConfigurationError:
        assert not expected
        return
    assert expected
    for row, tokens in expected.items():
        if sum(len(TOKENS[t]) for t in row) <= 2:
            assert legal(made, list(row)) == tokens, (pattern, left_out, row)


def test_a_dfa_takes_no_move_of_a_token_that_is_left_out() -> None:
    moves = {(0, 0): 1, (1, 1): 2, (0, 2): 3, (3, 3): 2}
    part = VOCABULARY.without([1])
    assert legal(lk.Dfa(moves, 0, {2}, part), []) == {2}
    with pytest.raises(ConfigurationError, match="no accepting state can be reached"):
        lk.Dfa(moves, 0, {2}, VOCABULARY.without([1, 3]))


@pytest.mark.parametrize("closing", [False, 30])
@pytest.mark.parametrize("left_out", [[ord("}")], [ord("}"), TWO_ENDS], [ord("]"), NESTED_END], [QUOTED_END, TWO_ENDS]])
def test_values_that_nest_are_never_stuck(left_out: list[int], closing: bool | int) -> None:
    schema = {
        "$ref": "#/$defs/node",
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "a": {"enum": ["b", 1]},
                    "c": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 3},
                },
                "required": ["a"],
                "additionalProperties": False,
            }
        },
    }
    made = lk.JsonSchema(schema, BYTES.without(left_out), closing=closing)
    generator = torch.Generator().manual_seed(5)
    context = lk.Context.of([[]], vocabulary_size=BYTES.size)
    for _ in range(40):
        state, ids = made.init_state(context), []
        while True:
            logits = made.process_logits(state, torch.zeros(1, BYTES.size), context)[1]
            assert not made.is_dead(state).any()
            token = torch.multinomial(logits.softmax(1), 1, generator=generator)[:, 0]
            if int(token) == 135:
                break
            ids.append(int(token))
            state = made.advance(state, token)
        assert not set(ids) & set(left_out)
        assert not closing or len(ids) <= 30
        jsonschema.validate(json.loads(BYTES.decode(ids)), schema)


def test_without_any_end_of_an_object_there_is_no_text() -> None:
    schema = {"type": "object", "properties": {"a": {"$ref": "#"}}, "additionalProperties": False}
    with pytest.raises(ConfigurationError, match="the tokens of the vocabulary spell no text"):
        lk.JsonSchema(schema, BYTES.without([ord("}"), QUOTED_END, TWO_ENDS, NESTED_END]))


def test_rows_of_both_share_a_batch() -> None:
    whole, part = lk.Regex("a+b", VOCABULARY), lk.Regex("a+b", VOCABULARY.without([1, 3]))
    context = lk.Context.of([[]], vocabulary_size=VOCABULARY.size)
    state = lk.concatenate([whole.init_state(context), part.init_state(context)])
    both = lk.Context.of([[], []], vocabulary_size=VOCABULARY.size)
    row, other = whole.process_logits(state, torch.zeros(2, VOCABULARY.size), both)[1] > -torch.inf
    assert set(row.nonzero()[:, 0].tolist()) == {0, 3, 6}
    assert set(other.nonzero()[:, 0].tolist()) == {0, 6}
    stops = [lk.StopStrings(["b"], vocabulary) for vocabulary in (VOCABULARY, VOCABULARY.without([1]))]
    assert stops[0].registry is stops[1].registry


def test_ids_without_text_are_left_out_too() -> None:
    assert 8 in legal(lk.BannedStrings(["c"], VOCABULARY), [])
    assert 8 not in legal(lk.BannedStrings(["c"], VOCABULARY.without([8])), [])
    for language in (repeat(any_token(), 2, 2), sequence(any_token(), literal("c"))):
        assert legal(language.constraint(VOCABULARY.without([3, 8])), []) == {0, 1, 2, 4, 5, 6}
    with pytest.raises(LogitkitError, match="<t>"):
        sequence(special("<t>"), regex("a")).constraint(VOCABULARY.without([8]))


def test_its_automata_are_cached_and_filed_apart(tmp_path: Path) -> None:
    whole = lk.Vocabulary([*TOKENS, b"only here", None], eos_ids=[8])
    shared_by(whole).files = AutomatonFiles(tmp_path / "files", whole.content_key)
    made = [lk.Regex("a+b", vocabulary) for vocabulary in (whole, whole.without([1]), whole.without([1]), whole)]
    assert made[0].automaton is made[3].automaton
    assert made[1].automaton is made[2].automaton
    assert made[0].automaton is not made[1].automaton
    assert len([*(tmp_path / "files").iterdir()]) == 2


def test_it_is_a_vocabulary_of_its_own() -> None:
    part = VOCABULARY.without([1, 7])
    assert part.tokens == (b"a", None, b"c", b"ab", b"ba", b"bc", b"aab", None, None)
    assert (part.size, part.eos_ids, part.pad_id, dict(part.special)) == (9, (7,), None, dict(VOCABULARY.special))
    assert part == VOCABULARY.without([1]) != VOCABULARY
    assert part.without([2]) == VOCABULARY.without([2, 1])
    assert part.without([1]) is part
    assert VOCABULARY.without([7]) is VOCABULARY
    assert pickle.loads(pickle.dumps(part)) == part
    assert pickle.loads(pickle.dumps(part)).left_out == {1}


@pytest.mark.parametrize(
    ("ids", "message"), [([9], "ids has 9"), (["a"], "ids has 'a'"), (range(9), "no token with text")]
)
def test_ids_that_cannot_be_left_out(ids: Any, message: str) -> None:
    with pytest.raises(VocabularyError, match=message):
        VOCABULARY.without(ids)
